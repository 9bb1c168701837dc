"""Generated problems whose right and mistaken solutions are known: what a task offers for training corpora."""

from __future__ import annotations

import bisect
import functools
import hashlib
import itertools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from engine.records import CausalEdge, Problem, Scaffold
from examples.pocket_model.quickstart.wording import expand

SPLITS = {"train": 0.7, "validation": 0.15, "test": 0.15}
"""Shares of the wordings, and likewise of the number tuples, that belong to each split."""

_SPLITS = tuple(SPLITS)
_BOUNDS = [round(share * 2**64).to_bytes(8) for share in list(itertools.accumulate(SPLITS.values()))[:-1]]
"""The hashes from which on texts belong to the next split."""

_NAME = re.compile(r"[A-Za-z_]\w*(?!\w*\s*\()")


@dataclass(frozen=True)
class Way:
    """A way to go about it, right or mistaken.

    Args:
        strategy: the way in a few words.
        rules: rules in order, parted by semicolons; the effect of the last one is what is asked for.
    """

    strategy: str
    rules: str

    @property
    def target(self) -> str:
        """The variable that is asked for."""
        return self.edges[-1].effect

    @functools.cached_property
    def edges(self) -> tuple[CausalEdge, ...]:
        """The rules as edges of a causal graph; the causes are the names in a rule, as they come."""
        edges = []
        for rule in self.rules.split(";"):
            effect, _, expression = rule.strip().partition(" = ")
            causes = list(dict.fromkeys(_NAME.findall(expression)))
            edges.append(CausalEdge(cause=causes, effect=effect, rule=rule.strip()))
        return tuple(edges)


@dataclass(frozen=True)
class ProblemFamily:
    """Short word problems of one kind, with a mistake that people really make.

    Args:
        name: its name, an identifier.
        category: category of its experiences.
        wording: a grammar (``wording.py``); its slots are the numbers, ``who``, ``other``,
            ``place`` and ``thing``.
        numbers: for each known, in the order of the scaffold, the values that it can take.
        fits: whether a choice of numbers gives a clean problem; takes the numbers in their order.
        answer: the right answer in closed form, written apart from ``right``.
        right: the right way.
        mistaken: the well-known mistake.
        lesson: a grammar of its experiences: when they apply, and what to do.
        habit: probability of the right way without the experience.
    """

    name: str
    category: str
    wording: str
    numbers: Mapping[str, Sequence[int]]
    fits: Callable[..., bool]
    answer: Callable[..., Fraction | int]
    right: Way
    mistaken: Way
    lesson: str
    habit: float

    @functools.cached_property
    def wordings(self) -> tuple[str, ...]:
        """All wordings, with slots in place of numbers and names."""
        return expand(self.wording)

    @functools.cached_property
    def lessons(self) -> tuple[str, ...]:
        """All paraphrases of the family's experience."""
        return expand(self.lesson)

    @functools.cached_property
    def _choices(self) -> Mapping[str, Sequence[tuple[int, ...]]]:
        # What is hashed is the name and the sorted items of the choice, as Python shows them.
        order = sorted(range(len(self.numbers)), key=list(self.numbers).__getitem__)
        names = list(self.numbers)
        shown = f"{self.name}:[{', '.join(f'({names[index]!r}, %d)' for index in order)}]"
        sort = operator.itemgetter(*order)
        choices: dict[str, list[tuple[int, ...]]] = {split: [] for split in SPLITS}
        for choice in itertools.product(*self.numbers.values()):
            if self.fits(*choice):
                choices[split_of(shown % sort(choice))].append(choice)
        return choices

    @functools.lru_cache(maxsize=128)  # noqa: B019 - families live as long as the module
    def wordings_of(self, split: str) -> tuple[str, ...]:
        """The wordings that belong to a split."""
        return tuple(text for text in self.wordings if split_of(f"{self.name}:{text}") == split)

    def choices_of(self, split: str) -> Sequence[tuple[int, ...]]:
        """The clean choices of numbers that belong to a split, each in the order of ``numbers``."""
        return self._choices[split]

    @functools.lru_cache(maxsize=128)  # noqa: B019
    def lessons_of(self, split: str) -> tuple[str, ...]:
        """The paraphrases of the experience that belong to a split; every split has some."""
        ordered = sorted(self.lessons, key=_hash)
        count = max(1, round(len(ordered) * SPLITS["test"]))
        parts = {"test": ordered[:count], "validation": ordered[count : 2 * count], "train": ordered[2 * count :]}
        return tuple(parts[split])

    def scaffold(self, way: Way, draw: Mapping[str, int]) -> Scaffold:
        """The scaffold of a way for a choice of numbers, without a stated answer."""
        return Scaffold(
            chosen_strategy=way.strategy,
            target_variable=way.target,
            knowns=dict(draw),
            causal_graph=list(way.edges),
        )

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class FamilyProblem:
    """A problem together with what made it."""

    problem: Problem
    family: ProblemFamily
    draw: Mapping[str, int]

    def scaffold(self, is_right: bool) -> Scaffold:
        """The right solution or the mistaken one, without a stated answer."""
        return self.family.scaffold(self.family.right if is_right else self.family.mistaken, self.draw)


def split_of(text: str) -> str:
    """The split that a text belongs to, by its hash; the same on every machine."""
    return _SPLITS[bisect.bisect(_BOUNDS, _hash(text))]


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
