"""Which experiences fit a problem: those that come from similar problems, or that speak of its subject.

Texts are compared by the cosine of their words, or of parts of these, weighted by how rare one is. No model is needed.
"""

from __future__ import annotations

import functools
import hashlib
import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from engine.experience.state import comes_from, texts_of_sources
from engine.experience.text_checks import shingles
from engine.records import IMAGE_TAG, Experience, Problem

LIKE_IT = 0.5
"""Share of the highest similarity to a problem from which on other problems count as like it."""
_COMPARED = 1000
"""Problems of a run that a problem is compared with."""
_HAS_KINDS = 0.25
"""The least median of the cosines between a problem and the most similar other one, if a run has kinds of problems. The
median is 0.56 in 100 problems of ``quickstart``, whose families are templates, 0.41 in 150 of MBPP, 0.30 in 40 of
:mod:`bench.learning_world`, and 0.21 in AIME 2024, where no two problems are of one kind."""
_TYPICAL_OF = 100
"""Problems from which this median is estimated."""
_UNLIKE, _ALIKE = 0.35, 0.5
"""Shares of the usual similarity of a kind at which two problems are not of one kind, and at which they are. Of the
pairs of one family, 92 % have more than 0.35 in 100 problems of ``quickstart``, and 94 % in 40 of
:mod:`bench.learning_world`; of the other pairs 1 % and 32 %."""


class ExperienceMatcher:
    """Ranks the experiences of a library by their similarity to a problem.

    Problems that resemble each other need the same experience. So the similarity is the highest cosine between the
    problem and one of the problems that an experience was learned from, plus the cosine between the problem and the
    experience's own words. An experience that a person wrote has its own words only. The weights of words come from
    the library alone, so that the same library ranks equally everywhere.

    Args:
        experiences: the library.
    """

    def __init__(self, experiences: Sequence[Experience]) -> None:
        self.experiences = experiences
        self._sources = [
            list(dict.fromkeys(_words(source.problem_text) for source in entry.evidence if source.problem_text))
            for entry in experiences
        ]
        self._contents = [_words(f"{entry.category.replace('_', ' ')} {entry.content}") for entry in experiences]
        self._source_texts = _Texts({words for sources in self._sources for words in sources})
        self._content_texts = _Texts(self._contents)

    def cosines(self, text: str) -> list[tuple[float, float]]:
        """For each experience the highest cosine between a problem and one of its problems, and that with its words."""
        words = _words(text)
        of_sources, of_contents = self._source_texts.cosines(words), self._content_texts.cosines(words)
        return [
            (max((of_sources.get(source, 0.0) for source in sources), default=0.0), of_contents.get(content, 0.0))
            for sources, content in zip(self._sources, self._contents, strict=True)
        ]

    def most_similar(
        self, text: str, count: int, *, without: Collection[str] = (), share: float = LIKE_IT
    ) -> list[Experience]:
        """The experiences that are the most similar to a problem, the most similar first.

        Those that were learned from problems less than half as similar as the most similar one are left out: in a
        small library most of the prompt would else be about other problems, and the effect of an experience would be
        measured mostly where it has none. Experiences without such problems have only their own words, which do not
        say whether they apply, and stay, as pinned ones do. Equal ones keep the order of the library.

        Args:
            text: the text of the problem.
            count: the largest number of experiences.
            without: ids of experiences that are not chosen.
            share: the share of the highest similarity, instead of half; 0: none is left out.
        """
        allowed = [
            (experience, sources, cosines)
            for experience, sources, cosines in zip(self.experiences, self._sources, self.cosines(text), strict=True)
            if experience.id not in without
        ]
        least = share * max((of_source for _, _, (of_source, _) in allowed), default=0.0)
        kept = [
            (sum(cosines), experience)
            for experience, sources, cosines in allowed
            if cosines[0] >= least or not sources or experience.status == "pinned"
        ]
        return [experience for _, experience in sorted(kept, key=lambda scored: -scored[0])[:count]]


class SimilarCases:
    """Chooses the cases of the problems that are the most similar to a problem; the most similar one stands last.

    A case is found by its problem; one that a person wrote, by its own text. Compared are the parts of words, as "paid"
    and "payment" are like "pay": of 77 kinds of questions with three cases each (Banking77), one of the four most
    similar cases is of the right kind for 77 % of new questions, and for 67 % by whole words.

    Args:
        count: the largest number.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._last: tuple[list[Experience], list[frozenset[str]], _Texts] | None = None

    def choose(self, problem: Problem, experiences: Sequence[Experience]) -> list[Experience]:
        """The cases of a prompt, among the experiences of a library. May be called from several threads.

        Those less than half as similar as the most similar one are left out, and so is a case of the problem itself,
        which has its answer.
        """
        cases = [experience for experience in experiences if experience.kind == "case"]
        last = self._last
        if last is None or last[0] != cases:
            parts = [_parts(" ".join(sorted(texts_of_sources(case))) or case.content) for case in cases]
            self._last = last = cases, parts, _Texts(parts)
        _, parts, texts = last
        cosines = texts.cosines(_parts(problem.text))
        similar = [
            (cosines[of_case], case)
            for of_case, case in zip(parts, cases, strict=True)
            if of_case in cosines and not comes_from(case, problem)
        ]
        best = sorted(similar, key=lambda scored: -scored[0])[: self._count]
        return [case for cosine, case in best[::-1] if cosine >= LIKE_IT * best[0][0]]


class ProblemKinds:
    """Tells problems of one kind from others, by all problems of a run.

    The library alone cannot tell that no experience comes from a problem's kind: one of its experiences is always the
    most similar.

    Args:
        texts: the problems; of more than 1,000, these many are compared. They are read when they are first compared,
            which is not before a library holds something.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._given = list(texts)
        self._nearest: dict[frozenset[str], float] = {}

    def likeness(self, text: str, others: Iterable[str]) -> float:
        """How much the most similar of other problems is of the kind of a problem: 0 not at all, 1 as usual.

        Their cosine is divided by that of the problem and the most similar other one of the run, or by the median of
        these over the run if that is more. From 0.35 to 0.5 of it the likeness rises from 0 to 1. In a run whose
        problems have no kinds (median below 0.25), it is 1.
        """
        if self._typical < _HAS_KINDS:
            return 1.0
        return min(1.0, max(0.0, (self._share(text, others) - _UNLIKE) / (_ALIKE - _UNLIKE)))

    def likeness_of(self, text: str, experience: Experience) -> float:
        """The likeness of a problem to those that an experience was learned from; 1 if their texts are unknown."""
        sources = texts_of_sources(experience)
        return self.likeness(text, sources) if sources else 1.0

    def is_of_kind(self, problem: Problem, experience: Experience) -> bool:
        """Whether an experience was learned from a problem or from one of its kind, also in a run without kinds."""
        return comes_from(experience, problem) or self._share(problem.text, texts_of_sources(experience)) >= _ALIKE

    def _share(self, text: str, others: Iterable[str]) -> float:
        """The largest similarity of a problem to others, as a share of the usual one of a kind."""
        words = _words(text)
        cosine = max((self._texts.cosine(words, _words(other)) for other in others), default=0.0)
        return cosine / (max(self._nearest_of(words), self._typical) or 1)

    @functools.cached_property
    def _compared(self) -> list[frozenset[str]]:
        chosen = sorted(set(self._given), key=lambda text: hashlib.sha256(text.encode()).digest())[:_COMPARED]
        return list(dict.fromkeys(map(_words, chosen)))

    @functools.cached_property
    def _texts(self) -> _Texts:
        return _Texts(self._compared)

    @functools.cached_property
    def _typical(self) -> float:
        """The median of the cosines between a problem and the most similar other one."""
        return statistics.median(map(self._nearest_of, self._compared[:_TYPICAL_OF])) if self._compared else 0.0

    def _nearest_of(self, words: frozenset[str]) -> float:
        if words not in self._nearest:
            others = (score for other, score in self._texts.cosines(words).items() if other != words)
            self._nearest[words] = max(others, default=0.0)
        return self._nearest[words]


class _Texts:
    """Texts that others are compared with, by the cosine of their words.

    The weight of a word is the logarithm of how rare it is among the texts, plus 1.

    Args:
        texts: their words.
    """

    def __init__(self, texts: Collection[frozenset[str]]) -> None:
        frequency = Counter(word for words in texts for word in words)
        self._with_word: dict[str, list[frozenset[str]]] = {}
        for words in dict.fromkeys(texts):
            for word in words:
                self._with_word.setdefault(word, []).append(words)
        self._squares = {word: (math.log((1 + len(texts)) / (1 + count)) + 1) ** 2 for word, count in frequency.items()}
        self._rarest = max(self._squares.values(), default=1.0)
        self._lengths = {words: math.sqrt(self._square(words)) or 1.0 for words in texts}

    def _square(self, words: frozenset[str]) -> float:
        # fsum does not depend on the order of a set, which differs between processes.
        return math.fsum(self._squares.get(word, self._rarest) for word in words)

    def cosine(self, words: frozenset[str], other: frozenset[str]) -> float:
        """The cosine between two texts."""
        return self._square(words & other) / (math.sqrt(self._square(words) * self._square(other)) or 1.0)

    def cosines(self, words: frozenset[str]) -> dict[frozenset[str], float]:
        """The cosine between these words, of which unknown ones count in the length, and each text that shares one."""
        length = math.sqrt(self._square(words)) or 1.0
        shared: dict[frozenset[str], list[float]] = {}
        for word in words & self._squares.keys():
            for text in self._with_word[word]:
                shared.setdefault(text, []).append(self._squares[word])
        return {text: math.fsum(squares) / (length * self._lengths[text]) for text, squares in shared.items()}


@functools.lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    return shingles(IMAGE_TAG.sub("", text.casefold()))  # whether two images are alike is not known


def _parts(text: str) -> frozenset[str]:
    """Three neighbouring characters of a word, of which the space before and after it is one."""
    return frozenset(word[at : at + 3] for word in map(" {} ".format, _words(text)) for at in range(len(word) - 2))
