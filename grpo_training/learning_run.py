"""The loop that generators and critic share: groups in window order, statistics, lessons, library."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from agents.analyst import Attempt, Proposal
from engine.errors import IncompleteRunError
from engine.experience_library import ExperienceLibrary, StepOutcome
from engine.experience_state import EMPTY, LibraryState
from engine.group_statistics import DeadRewardWatch
from engine.progress import GroupLine, Progress
from engine.records import Fault, GroupStats, Outcome, Problem, Rewards
from grpo_training.ordered_window import run_in_window

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from agents.analyst import ExperienceAnalyst

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
    """

    record: RecordT
    attempts: list[Attempt]
    rewards: list[Rewards]
    stats: GroupStats
    experience_ids: list[str]
    is_kept: bool
    re_asked: int = 0
    repaired: int = 0


@dataclass(frozen=True)
class _Turn(Generic[RecordT]):
    """A step's outcome: a group and its proposal, or the fault that leaves it open."""

    group: ScoredGroup[RecordT] | None
    proposal: Proposal | None = None
    fault: Fault | None = None


@dataclass
class LearningRun(Generic[RecordT]):
    """One process's run.

    Args:
        run: the run's name in the library's log.
        window: W; the group of the k-th step sees the lessons of steps up to k - W.
        library: the learner's library.
        analyst: proposes operations on a triggered group.
        produce: makes a step's group with the given lessons, or says what fault leaves it open.
        keep: stores a group's record durably.
        progress: shows the run.
    """

    run: str
    window: int
    library: ExperienceLibrary
    analyst: ExperienceAnalyst
    produce: Callable[[Step, LibraryState], Awaitable[ScoredGroup[RecordT] | Fault]]
    keep: Callable[[RecordT], None]
    progress: Progress
    open: list[str] = field(default_factory=list)
    members: int = 0
    re_asked: int = 0
    repaired: int = 0
    committed: list[LibraryState] = field(default_factory=list)
    start: LibraryState = EMPTY
    watch: DeadRewardWatch = field(default_factory=DeadRewardWatch)

    async def go(self, steps: AsyncIterator[Step]) -> None:
        """Work through the steps.

        Raises:
            IncompleteRunError: a step stayed open after all attempts; later steps wait for its lesson.
        """
        self.start = self.library.begin_run(self.run)
        await run_in_window(steps, self.window, self._work, self._commit)
        if self.open:
            raise IncompleteRunError(
                f"Stopped: {self.open[0]}",
                why="All attempts failed, and later problems wait for this lesson. Nothing was scored as wrong.",
                fix="The same command goes on from there; what was answered is not paid for again.",
            )

    def summary_rows(self) -> list[tuple[str, str]]:
        """What the table at the end says beside the progress's own counts."""
        rows = [
            ("library", f"version {self.library.state.version}, {len(self.library.state.experiences)} lessons"),
            ("replies mended / re-asked", f"{self.repaired} / {self.re_asked} of {self.members}"),
        ]
        for item in self.watch.summary():
            alarm = f"  ⚠ {item.dead.reason}" if item.dead else ""
            rows.append((item.component, f"{item.low:.3f} to {item.high:.3f}{alarm}"))
        return rows + [("open", text) for text in self.open]

    async def _work(self, k: int, step: Step) -> _Turn[RecordT]:
        state = self.committed[k - self.window] if k >= self.window else self.start
        group = await self.produce(step, state)
        if isinstance(group, Fault):
            return _Turn(None, fault=group)
        if not group.stats.triggered or step.number in self.library.states_by_step(self.run):
            return _Turn(group)
        proposal = await self.analyst.propose(step.problem, group.attempts, state.experiences)
        if proposal.outcome is Outcome.INFRA_FAULT:
            return _Turn(group, fault=proposal.fault or Fault(kind="analyst_unreachable"))
        return _Turn(group, proposal)

    def _commit(self, k: int, step: Step, turn: _Turn[RecordT]) -> bool:
        group = turn.group
        if group is not None and not group.is_kept:
            self.keep(group.record)
        if turn.fault is not None or group is None:
            fault = turn.fault or Fault(kind="unknown")
            self.open.append(f"{step.problem.id}: {fault.kind} {fault.message}".strip())
            return False
        correct = sum(attempt.is_correct for attempt in group.attempts)
        result = self.library.commit_step(
            StepOutcome(
                run=self.run,
                step=step.number,
                problem=step.problem,
                epoch=step.epoch,
                used=group.experience_ids,
                rollouts=len(group.attempts),
                correct=correct,
                stats=group.stats,
            ),
            turn.proposal.operations if turn.proposal else [],
        )
        self.committed.append(result.state)
        self._count(group)
        if turn.proposal is not None and turn.proposal.fault is not None:
            self.progress.note(f"{step.problem.id}: the analyst's reply gave no lesson ({turn.proposal.fault.kind})")
        line = GroupLine(
            problem_id=step.problem.id,
            mean=group.stats.mean,
            std=group.stats.std,
            triggered=group.stats.triggered,
            correct=correct,
            size=len(group.attempts),
            saved=[operation.content or f"deleted {operation.id}" for operation in result.applied],
            refused=[f"{refusal.reason}: {refusal.operation.content}" for refusal in result.refused],
        )
        if group.is_kept:
            self.progress.restored_one(line)
        else:
            self.progress.group_done(line)
        return True

    def _count(self, group: ScoredGroup[RecordT]) -> None:
        self.members += len(group.attempts)
        self.re_asked += group.re_asked
        self.repaired += group.repaired
        names = [name for name in Rewards.model_fields if name != "r_total"]
        for alarm in self.watch.feed({name: [getattr(rewards, name) for rewards in group.rewards] for name in names}):
            self.progress.note(f"⚠ dead reward: {alarm.reason}")
