"""Experience extraction, the same for every learner: a scored group -> analyst -> library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from engine.errors import InputError
from engine.experience.library import ExperienceLibrary, StepOutcome, StepResult
from engine.records import Problem, Rewards
from engine.task import task_named

if TYPE_CHECKING:
    from agents.analyst import Attempt, ExperienceAnalyst, Proposal
    from engine.experience.state import LibraryState
    from engine.records import GroupStats

RecordT = TypeVar("RecordT")


@dataclass(frozen=True)
class Step:
    """One problem's turn. ``number`` names it in the library's log; it never changes between starts."""

    number: int
    problem: Problem
    epoch: int = 0


@dataclass(frozen=True)
class ScoredGroup(Generic[RecordT]):
    """A complete group of rollouts or fusions.

    Args:
        record: what is kept.
        attempts: the members as the analyst sees them.
        rewards: the members' rewards.
        stats: their statistics.
        experience_ids: the lessons that stood in the prompt.
        is_kept: whether an earlier start has stored the record.
        re_asked: members that were re-asked.
        repaired: members whose reply had to be mended.
        with_logprobs: members whose sampled token ids are stored with their log-probs.
    """

    record: RecordT
    attempts: list[Attempt]
    rewards: list[Rewards]
    stats: GroupStats
    experience_ids: list[str]
    is_kept: bool
    re_asked: int = 0
    repaired: int = 0
    with_logprobs: int = 0

    @property
    def correct(self) -> int:
        """How many members are right."""
        return sum(attempt.is_correct for attempt in self.attempts)


class ExperienceExtractor:
    """Turns groups into lessons. The analyst proposes; the library disposes.

    Args:
        run: the run's name in the library's log.
        analyst: proposes operations.
        library: the learner's library.
    """

    def __init__(self, run: str, analyst: ExperienceAnalyst, library: ExperienceLibrary) -> None:
        self.library = library
        self._run, self._analyst = run, analyst

    def begin(self) -> LibraryState:
        """The library that the run's first prompts know, also after a restart."""
        return self.library.begin_run(self._run)

    def is_recorded(self, step: Step) -> bool:
        """Whether an earlier start has recorded the step.

        Raises:
            InputError: what is recorded under its number is of another problem.
        """
        recorded = self.library.recorded(self._run, step.number)
        if recorded is not None and (recorded.problem_id, recorded.epoch) != (step.problem.id, step.epoch):
            raise InputError(
                f"The run's step {step.number} was {recorded.problem_id} and is {step.problem.id} now",
                why="What the run works on was replaced since it began.",
                fix="Choose --fresh (set its results aside).",
            )
        return recorded is not None

    async def propose(self, step: Step, group: ScoredGroup[RecordT], state: LibraryState) -> Proposal | None:
        """What a group teaches; None where sigma <= tau, or where an earlier start has recorded the step.

        A proposal of outcome ``infra_fault`` says that the analyst could not be reached: the step stays open.
        """
        if not group.stats.triggered or self.is_recorded(step):
            return None
        return await self._analyst.propose(step.problem, group.attempts, state.experiences)

    def record(self, step: Step, group: ScoredGroup[RecordT], proposal: Proposal | None) -> StepResult:
        """Write the step, and what holds of its proposal, into the library."""
        outcome = StepOutcome(
            run=self._run,
            step=step.number,
            problem=step.problem,
            epoch=step.epoch,
            used=group.experience_ids,
            rollouts=len(group.attempts),
            correct=group.correct,
            stats=group.stats,
            leaks_answer=task_named(step.problem.task).leaks_answer,
        )
        return self.library.commit_step(outcome, proposal.operations if proposal else [])
