"""Short word problems, each family with its well-known mistake: the dataset ``quickstart`` and a corpus."""

from __future__ import annotations

import hashlib
import random

from engine.errors import InputError
from engine.records import Problem
from examples.pocket_model.quickstart import averages, counting, geometry, percentages, physics, rates
from examples.pocket_model.quickstart.families import SPLITS, FamilyProblem, ProblemFamily

__all__ = ["FAMILIES", "SPLITS", "draw_instance", "instances", "problems"]

FAMILIES: dict[str, ProblemFamily] = {
    family.name: family
    for module in (rates, percentages, counting, averages, geometry, physics)
    for family in module.FAMILIES
}

_TASK = "math"
_TRIES = 100
"""Draws of a family that may repeat a text before the family's turn is left out."""


NAMES = (
    *("Ada", "Ben", "Clara", "David", "Emil", "Fatima", "George", "Hana", "Ivan", "Julia", "Kim", "Leo"),
    *("Maria", "Noah", "Olga", "Paul", "Rosa", "Sam", "Tara", "Viktor"),
)
PLACES = ("the coast", "the market", "the lake", "the airport", "the old town", "the harbour", "a farm", "the castle")
THINGS = ("coat", "bicycle", "lamp", "camera", "table", "guitar", "phone", "carpet", "tent", "watch")


def problems(split: str, count: int, seed: int = 0) -> list[Problem]:
    """Problems of a split, the families in turn, no text twice.

    The splits are disjoint by wording (names and numbers apart) and by the choice of numbers of each family.

    Args:
        split: ``train``, ``validation`` or ``test``.
        count: how many.
        seed: the same seed gives the same problems, and a larger count only adds to them.

    Raises:
        InputError: there is no such split, or it has fewer problems.
    """
    return [instance.problem for instance in instances(split, count, seed)]


def instances(split: str, count: int, seed: int = 0) -> list[FamilyProblem]:
    """As :func:`problems`, with family and numbers."""
    if split not in SPLITS:
        raise InputError(f"Unknown split {split!r} of quickstart", fix=f"Splits: {', '.join(SPLITS)}.")
    rng = random.Random(f"{split}:{seed}")
    by_text: dict[str, FamilyProblem] = {}
    while len(by_text) < count:
        before = len(by_text)
        families = list(FAMILIES.values())
        rng.shuffle(families)
        for family in families:
            drawn = (draw_instance(family.name, split, rng) for _ in range(_TRIES))
            instance = next((new for new in drawn if new.problem.text not in by_text), None)
            if instance is not None:
                by_text[instance.problem.text] = instance
        if len(by_text) == before:
            raise InputError(f"quickstart has no {count} problems in its split {split}", fix="Ask for fewer.")
    return list(by_text.values())[:count]


def draw_instance(name: str, split: str, rng: random.Random) -> FamilyProblem:
    """One problem of a family, drawn from a split."""
    family = FAMILIES[name]
    wording = rng.choice(family.wordings_of(split))
    draw = dict(zip(family.numbers, rng.choice(family.choices_of(split)), strict=True))
    who, other = rng.sample(NAMES, 2)
    text = wording.format(**draw, who=who, other=other, place=rng.choice(PLACES), thing=rng.choice(THINGS))
    problem = Problem(
        id=f"quickstart-{family.name}-{_digest(text)}",
        text=text,
        answer=str(family.answer(**draw)),
        task=_TASK,
        meta={"family": family.name, "wording": _digest(wording)},
    )
    return FamilyProblem(problem, family, draw)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]
