"""Which experiences of a library go into the prompt of a problem."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from engine.experience.similarity import most_similar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.records import Experience, Problem
    from grpo_training.learning.settings import LearnerSettings


class ExperienceChoice(Protocol):
    """Chooses experiences. The same problem, epoch and library give the same choice, so that a run can be resumed."""

    def choose(self, problem: Problem, epoch: int, experiences: Sequence[Experience]) -> Sequence[Experience]:
        """The experiences of a prompt, in the order in which they stand there."""


@dataclass(frozen=True)
class WholeLibrary:
    """All experiences in the order of the library; of a library above the budget, the most similar to the problem."""

    budget: int

    def choose(self, problem: Problem, epoch: int, experiences: Sequence[Experience]) -> Sequence[Experience]:
        """The experiences of a prompt."""
        if len(experiences) <= self.budget:
            return experiences
        return most_similar(problem.text, experiences, self.budget)


@dataclass(frozen=True)
class BySimilarity:
    """The ``count`` experiences that are the most similar to the problem."""

    count: int

    def choose(self, problem: Problem, epoch: int, experiences: Sequence[Experience]) -> Sequence[Experience]:
        """The experiences of a prompt."""
        return most_similar(problem.text, experiences, self.count)


@dataclass(frozen=True)
class ByChance:
    """``count`` experiences by chance, others for each problem, epoch and role."""

    count: int
    seed: str

    def choose(self, problem: Problem, epoch: int, experiences: Sequence[Experience]) -> Sequence[Experience]:
        """The experiences of a prompt."""
        rng = random.Random(f"{self.seed}:{epoch}:{problem.id}")  # noqa: S311 - not for cryptography
        return rng.sample(list(experiences), min(self.count, len(experiences)))


def experience_choice(settings: LearnerSettings, role: str) -> ExperienceChoice:
    """The choice that settings describe.

    Args:
        settings: of a generator or the critic.
        role: its role; roles draw differently by chance.

    Raises:
        ScaffoldError: the checkpoint of the selector cannot be used.
    """
    if settings.selector is not None:
        from grpo_training.selector.experiences import SelectorChoice  # torch: only this choice needs it

        return SelectorChoice(settings.selector, settings.k)
    if settings.select == "text":
        return BySimilarity(settings.k)
    if settings.select == "random":
        return ByChance(settings.k, f"{settings.seed}:{role}")
    return WholeLibrary(settings.prompt_experiences)


def choice_facts(choice: ExperienceChoice) -> dict[str, Any]:
    """What identifies a choice besides its settings: the weights of a selector."""
    digest = getattr(choice, "digest", None)
    return {} if digest is None else {"selector": digest}
