"""The choice of experiences that the settings of a learner describe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.experience.choice import ByChance, BySimilarity, ExperienceChoice, WholeLibrary
from engine.experience.events import ChoiceRecord
from engine.experience.similarity import ProblemKinds
from engine.records import Problem
from grpo_training.learning.settings import LearnerSettings


def problem_kinds(settings: LearnerSettings, problems: Sequence[Problem]) -> ProblemKinds | None:
    """The kinds of the problems of a run, where experiences are on trial on problems like those that they come from."""
    if settings.learn != "trial" or settings.selector is not None or settings.selected_by != "text":
        return None
    return ProblemKinds(one.text for one in problems)


def experience_choice(settings: LearnerSettings, role: str, kinds: ProblemKinds | None = None) -> ExperienceChoice:
    """The choice that settings describe.

    Args:
        settings: of a generator or the critic.
        role: its role; roles draw differently by chance.
        kinds: those of the problems of the run, on trial, where they are known at its start.

    Raises:
        ScaffoldError: the checkpoint of the selector cannot be used.
    """
    if settings.selector is not None:
        from grpo_training.selector.experiences import SelectorChoice  # torch: only this choice needs it

        return SelectorChoice(settings.selector, settings.k)
    if settings.selected_by == "text":
        return BySimilarity(settings.k, on_trial=settings.learn == "trial", kinds=kinds)
    if settings.selected_by == "random":
        return ByChance(settings.k, f"{settings.seed}:{role}")
    return WholeLibrary(settings.prompt_experiences)


def choice_record(settings: LearnerSettings) -> ChoiceRecord | None:
    """What the library keeps of the choice; None for all experiences, as in libraries without such a record."""
    if settings.selector is not None:
        return ChoiceRecord(select="selector", k=settings.k, selector=str(settings.selector))
    if settings.selected_by == "all":
        return ChoiceRecord(k=settings.prompt_experiences) if settings.learn == "trial" else None
    return ChoiceRecord(select=settings.selected_by, k=settings.k)


def choice_facts(choice: ExperienceChoice) -> dict[str, Any]:
    """What identifies a choice besides its settings: the weights of a selector."""
    digest = getattr(choice, "digest", None)
    return {} if digest is None else {"selector": digest}
