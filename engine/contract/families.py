"""Generated problems whose right and mistaken solutions are known: what a task offers for training corpora."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from engine.records import Problem, Scaffold


class ProblemFamily(Protocol):
    """Problems of one kind, with a typical mistake and the experiences that prevent it."""

    @property
    def name(self) -> str:
        """An identifier."""

    @property
    def category(self) -> str:
        """The category of its experiences."""

    @property
    def habit(self) -> float:
        """Probability of the right solution without the experience."""

    @property
    def wordings(self) -> Sequence[str]:
        """All wordings."""

    @property
    def lessons(self) -> Sequence[str]:
        """All paraphrases of its experience."""

    def lessons_of(self, split: str) -> Sequence[str]:
        """The paraphrases that belong to a split."""


class FamilyProblem(Protocol):
    """A problem of a family."""

    @property
    def problem(self) -> Problem:
        """The problem."""

    @property
    def family(self) -> ProblemFamily:
        """Its family."""

    def scaffold(self, is_right: bool) -> Scaffold:
        """The right solution or the mistaken one, without a stated answer."""


class ProblemFamilies(Protocol):
    """The families of a generated dataset."""

    @property
    def task(self) -> str:
        """The name of the task of the problems."""

    @property
    def families(self) -> Mapping[str, ProblemFamily]:
        """The families by name."""

    def draw(self, family: str, split: str, rng: random.Random) -> FamilyProblem:
        """A random problem of a family and a split: ``train``, ``validation`` or ``test``."""

    def instances(self, split: str, count: int) -> Sequence[FamilyProblem]:
        """Distinct problems of a split, the families in turn."""
