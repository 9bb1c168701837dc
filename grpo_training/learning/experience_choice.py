"""Which experiences stand in the prompts of a group: the choice that the settings describe, and the lot."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.experience.choice import BySimilarity, instructions_for
from engine.experience.events import ChoiceRecord
from engine.experience.lot import drawn_halves
from engine.experience.similarity import ProblemKinds, SimilarCases
from engine.experience.state import LibraryState
from engine.records import Experience, Half, Problem
from grpo_training.learning.scored_groups import Step
from grpo_training.learning.settings import LearnerSettings


@dataclass(frozen=True)
class DrawnExperiences:
    """The experiences in the prompts of a group.

    Args:
        experiences: in the order of the library.
        library_version: version of the library that they are from.
        halves: id -> the prompt in which an experience stands; the others stand in both. Empty: there is one prompt.
    """

    experiences: Sequence[Experience]
    library_version: str
    halves: Mapping[str, Half] = field(default_factory=dict)


class ExperienceDraw:
    """Chooses the experiences for a problem and, on trial, draws in which of two prompts each stands.

    Args:
        role: of the learner.
        settings: of the learner.
        kinds: those of the problems of the run, on trial, where they are known at its start.
    """

    def __init__(self, role: str, settings: LearnerSettings, kinds: ProblemKinds | None = None) -> None:
        self._role, self._seed, self._on_trial = role, settings.seed, settings.learn == "trial"
        self._lessons = BySimilarity(share=0)
        if settings.selected_by == "text":
            self._lessons = BySimilarity(settings.k, on_trial=self._on_trial, kinds=kinds)
        self._cases = SimilarCases(settings.cases_in_prompt)

    async def draw(self, step: Step, state: LibraryState) -> DrawnExperiences:
        """The experiences of a step's prompts; the same for the same step and library state."""
        chosen = await asyncio.to_thread(self._choose, step.problem, state)
        lot, known = (self._seed, self._role, step.epoch, step.problem.id), state.trials.cases_help()
        halves = drawn_halves(*lot, chosen, knows_cases=known) if self._on_trial else {}
        return DrawnExperiences(tuple(chosen), state.version, halves)

    def _choose(self, problem: Problem, state: LibraryState) -> list[Experience]:
        if not state.live:
            return []
        cases = self._cases.choose(problem, state.live) if state.trials.cases_may_help() else []
        return [*instructions_for(problem, state.live), *self._lessons.choose(problem, state.live), *cases]


def problem_kinds(settings: LearnerSettings, problems: Sequence[Problem]) -> ProblemKinds | None:
    """The kinds of the problems of a run, where experiences are on trial on problems like those that they come from."""
    if settings.learn != "trial" or settings.selected_by != "text":
        return None
    return ProblemKinds(problem.text for problem in problems)


def choice_record(settings: LearnerSettings) -> ChoiceRecord | None:
    """What the library keeps of the choice; None for all experiences, as in libraries without such a record."""
    if settings.selected_by == "all":
        return ChoiceRecord() if settings.learn == "trial" else None
    return ChoiceRecord(select=settings.selected_by, k=settings.k, cases=settings.cases_in_prompt)
