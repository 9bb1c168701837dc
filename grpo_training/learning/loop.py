"""The loop that generators and critic share: groups in window order, each kept, then learned from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from engine.errors import IncompleteRunError
from engine.experience.state import EMPTY, LibraryState
from engine.records import Fault, Outcome
from engine.statistics.groups import DeadRewardWatch
from grpo_training.cli.progress import GroupLine, Progress
from grpo_training.learning.extractor import ExperienceExtractor, ScoredGroup, Step
from grpo_training.learning.window import run_in_window

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from agents.analyst import Proposal
    from engine.experience.library import StepResult

RecordT = TypeVar("RecordT")


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
        window: W; the group of the k-th step sees the lessons of steps up to k - W.
        extractor: learns from groups.
        produce: makes a step's group with the library given, or says what fault leaves it open.
        keep: stores a group's record durably.
        progress: shows the run.
    """

    window: int
    extractor: ExperienceExtractor
    produce: Callable[[Step, LibraryState], Awaitable[ScoredGroup[RecordT] | Fault]]
    keep: Callable[[RecordT], None]
    progress: Progress
    open: list[str] = field(default_factory=list)
    members: int = 0
    re_asked: int = 0
    repaired: int = 0
    with_logprobs: int = 0
    _start: LibraryState = EMPTY
    _committed: list[LibraryState] = field(default_factory=list)
    _watch: DeadRewardWatch = field(default_factory=DeadRewardWatch)

    async def go(self, steps: AsyncIterator[Step]) -> None:
        """Work through the steps.

        Raises:
            IncompleteRunError: a step stayed open after all attempts; later steps wait for its lesson.
        """
        self._start = self.extractor.begin()
        for notice in self.extractor.library.notices:
            self.progress.note(notice)
        await run_in_window(steps, self.window, self._work, self._commit)
        if self.open:
            raise IncompleteRunError(
                f"Stopped: {self.open[0]}",
                why="All attempts failed, and later problems wait for this lesson. Nothing was scored as wrong.",
                fix="The same command goes on from there; what was answered is not paid for again.",
            )

    def summary_rows(self) -> list[tuple[str, str]]:
        """What the table at the end says beside the progress's own counts."""
        state = self.extractor.library.state
        rows = [
            ("library", f"version {state.version}, {len(state.experiences)} lessons"),
            ("replies mended / re-asked", f"{self.repaired} / {self.re_asked} of {self.members}"),
        ]
        for item in self._watch.summary():
            alarm = f"  ⚠ {item.dead.reason}" if item.dead else ""
            rows.append((item.component, f"{item.low:.3f} to {item.high:.3f}{alarm}"))
        return rows + [("open", text) for text in self.open]

    async def _work(self, k: int, step: Step) -> _Turn[RecordT]:
        state = self._committed[k - self.window] if k >= self.window else self._start
        self.extractor.is_recorded(step)  # refuses a step that is not what it was, before anything is paid for
        group = await self.produce(step, state)
        if isinstance(group, Fault):
            return _Turn(None, fault=group)
        proposal = await self.extractor.propose(step, group, state)
        if proposal is not None and proposal.outcome is Outcome.INFRA_FAULT:
            return _Turn(group, fault=proposal.fault or Fault(kind="analyst_unreachable"))
        return _Turn(group, proposal)

    def _commit(self, k: int, step: Step, turn: _Turn[RecordT]) -> bool:
        group = turn.group
        if group is not None and not group.is_kept:
            self.keep(group.record)
        if group is None or turn.fault is not None:
            fault = turn.fault or Fault(kind="unknown")
            self.open.append(f"{step.problem.id}: {fault.kind} {fault.message}".strip())
            return False
        result = self.extractor.record(step, group, turn.proposal)
        self._committed.append(result.state)
        self._count(group)
        self._show(step, group, turn.proposal, result)
        return True

    def _count(self, group: ScoredGroup[RecordT]) -> None:
        self.members += len(group.attempts)
        self.re_asked += group.re_asked
        self.repaired += group.repaired
        self.with_logprobs += group.with_logprobs
        members = [rewards.by_name() for rewards in group.rewards]
        names = dict.fromkeys(name for member in members for name in member)
        for alarm in self._watch.feed({name: [member.get(name) for member in members] for name in names}):
            self.progress.note(f"⚠ dead reward: {alarm.reason}")

    def _show(self, step: Step, group: ScoredGroup[RecordT], proposal: Proposal | None, result: StepResult) -> None:
        if proposal is not None and proposal.fault is not None:
            self.progress.note(f"{step.problem.id}: the analyst's reply gave no lesson ({proposal.fault.kind})")
        line = GroupLine(
            problem_id=step.problem.id,
            mean=group.stats.mean,
            std=group.stats.std,
            triggered=group.stats.triggered,
            correct=group.correct,
            size=len(group.attempts),
            saved=[operation.content or f"deleted {operation.id}" for operation in result.applied],
            refused=[
                f"{refusal.reason}: {refusal.operation.content or refusal.operation.id}" for refusal in result.refused
            ],
        )
        if group.is_kept:
            self.progress.restored_one(line)
        else:
            self.progress.group_done(line)
