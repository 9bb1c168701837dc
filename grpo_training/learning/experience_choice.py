"""The choice of experiences that the settings of a learner describe."""

from __future__ import annotations

from collections.abc import Sequence

from engine.experience.choice import BySimilarity, ExperienceChoice, WholeLibrary
from engine.experience.events import ChoiceRecord
from engine.experience.similarity import ProblemKinds
from engine.records import Problem
from grpo_training.learning.settings import LearnerSettings


def problem_kinds(settings: LearnerSettings, problems: Sequence[Problem]) -> ProblemKinds | None:
    """The kinds of the problems of a run, where experiences are on trial on problems like those that they come from."""
    if settings.learn != "trial" or settings.selected_by != "text":
        return None
    return ProblemKinds(one.text for one in problems)


def experience_choice(settings: LearnerSettings, kinds: ProblemKinds | None = None) -> ExperienceChoice:
    """The choice that settings describe.

    Args:
        settings: of a generator or the critic.
        kinds: those of the problems of the run, on trial, where they are known at its start.
    """
    if settings.selected_by == "text":
        return BySimilarity(settings.k, on_trial=settings.learn == "trial", kinds=kinds)
    return WholeLibrary(settings.prompt_experiences)


def choice_record(settings: LearnerSettings) -> ChoiceRecord | None:
    """What the library keeps of the choice; None for all experiences, as in libraries without such a record."""
    if settings.selected_by == "all":
        return ChoiceRecord(k=settings.prompt_experiences) if settings.learn == "trial" else None
    return ChoiceRecord(select=settings.selected_by, k=settings.k)
