"""The learning loop of generators and critic: groups in order, each stored, then shown to the analyst."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

from engine.errors import IncompleteRunError
from engine.experience.library import StepResult
from engine.experience.state import EMPTY, LibraryState, Refusal
from engine.records import Fault, Outcome
from engine.statistics.groups import DeadRewardWatch
from grpo_training.cli.progress import GroupLine, Progress
from grpo_training.learning.extractor import ExperienceExtractor, ScoredGroup, Step
from grpo_training.learning.tracking import GroupTracking
from grpo_training.runs.window import SMALLEST_DEFAULT, run_in_window

if TYPE_CHECKING:
    from agents.analyst import Proposal

RecordT = TypeVar("RecordT")
P = ParamSpec("P")
ReturnT = TypeVar("ReturnT")

_PROBABLE = 0.8
"""The probability from which on an experience is said to help."""


class GroupProducer(Protocol[RecordT]):
    """Makes the groups of a learner and stores them."""

    async def produce(self, step: Step, state: LibraryState) -> ScoredGroup[RecordT] | Fault:
        """The group of a step, asked for with the given experiences; or the fault that leaves the step open."""

    def keep(self, record: RecordT) -> None:
        """Store the record of a group durably. Called in another thread, one call at a time."""


@dataclass(frozen=True)
class _StepResult(Generic[RecordT]):
    """A group and the analyst's proposal, or the fault that leaves the step open; ``not_asked`` says why it was not."""

    group: ScoredGroup[RecordT] | None
    proposal: Proposal | None = None
    fault: Fault | None = None
    not_asked: str = ""


@dataclass
class LearningLoop(Generic[RecordT]):
    """The loop of one start of a learner.

    Args:
        window: W; the prompt of step k has the experiences of steps up to k - W.
        extractor: turns groups into experiences.
        producer: makes and stores groups.
        progress: displays the run.
        tracking: sends the figures of new groups to a tracker.
    """

    window: int
    extractor: ExperienceExtractor
    producer: GroupProducer[RecordT]
    progress: Progress
    tracking: GroupTracking | None = None
    open: list[str] = field(default_factory=list)
    members: int = 0
    re_asked: int = 0
    repaired: int = 0
    with_logprobs: int = 0
    _start: LibraryState = EMPTY
    _committed: list[LibraryState] = field(default_factory=list)
    _watch: DeadRewardWatch = field(default_factory=DeadRewardWatch)
    _told: set[str] = field(default_factory=set)

    async def run(self, steps: Iterable[Step] | AsyncIterator[Step]) -> None:
        """Run all steps.

        Raises:
            IncompleteRunError: a step stayed open after all attempts; later steps need its result.
        """
        self._start = self.extractor.begin()
        for notice in self.extractor.library.notices:
            self.progress.note(notice)
        if self.window > SMALLEST_DEFAULT:
            self.progress.note(f"{self.window} problems in flight (--window)")
        await run_in_window(steps, self.window, self._work, self._commit)
        if self.open:
            raise IncompleteRunError(
                f"Stopped: {self.open[0]}",
                why="All attempts failed, and later prompts depend on this problem. Nothing was scored as wrong.",
                fix="Run the same command again to continue from there. Stored replies are reused.",
            )

    def summary_rows(self) -> list[tuple[str, str]]:
        """Rows of the final table: library, repairs, ranges of the reward components, open steps."""
        state = self.extractor.library.state
        rows = [
            ("library", f"version {state.version}, {len(state.experiences)} experiences"),
            *_trial_rows(state),
            ("replies repaired / re-asked", f"{self.repaired} / {self.re_asked} of {self.members}"),
        ]
        for item in self._watch.summary():
            alarm = f"  ⚠ {item.dead.reason}" if item.dead else ""
            rows.append((item.component, f"{item.low:.3f} to {item.high:.3f}{alarm}"))
        return rows + [("open", text) for text in self.open]

    async def _work(self, k: int, step: Step) -> _StepResult[RecordT]:
        state = self._committed[k - self.window] if k >= self.window else self._start
        self.extractor.is_recorded(step)  # refuses a changed problem before anything is paid for
        group = await self.producer.produce(step, state)
        if isinstance(group, Fault):
            return _StepResult(None, fault=group)
        reason = self.extractor.why_not_asked(step, group, state)
        if reason and reason not in self._told:
            self._told.add(reason)
            self.progress.note(reason)
        proposal = await self.extractor.propose(step, group, state)
        if proposal is not None and proposal.outcome is Outcome.INFRA_FAULT:
            return _StepResult(group, fault=proposal.fault or Fault(kind="analyst_unreachable"))
        return _StepResult(group, proposal, not_asked=reason)

    async def _commit(self, k: int, step: Step, result: _StepResult[RecordT]) -> bool:
        recorded = await _to_the_end(self._store, step, result)
        if recorded is None or result.group is None:
            fault = result.fault or Fault(kind="unknown")
            self.open.append(f"{step.problem.id}: {fault.message or fault.kind}")
            return False
        self._committed.append(recorded.state)
        self._count(result.group)
        self._show(step, result.group, result, recorded)
        return True

    def _store(self, step: Step, result: _StepResult[RecordT]) -> StepResult | None:
        """Store the group, and the step in the library unless it stays open. Blocks until both are on disk."""
        group = result.group
        if group is not None and not group.is_kept:
            self.producer.keep(group.record)
        if group is None or result.fault is not None:
            return None
        return self.extractor.record(step, group, result.proposal)

    def _count(self, group: ScoredGroup[RecordT]) -> None:
        self.members += len(group.attempts)
        self.re_asked += group.re_asked
        self.repaired += group.repaired
        self.with_logprobs += group.with_logprobs
        members = [rewards.by_name() for rewards in group.rewards]
        names = dict.fromkeys(name for member in members for name in member)
        for alarm in self._watch.feed({name: [member.get(name) for member in members] for name in names}):
            self.progress.note(f"⚠ dead reward: {alarm.reason}")

    def _show(self, step: Step, group: ScoredGroup[RecordT], made: _StepResult[RecordT], result: StepResult) -> None:
        line = GroupLine(
            problem_id=step.problem.id,
            mean=group.stats.mean,
            std=group.stats.std,
            triggered=group.stats.triggered,
            correct=group.correct,
            size=len(group.attempts),
            saved=[operation.content or f"deleted {operation.id}" for operation in result.applied],
            refused=[_refusal(refusal) for refusal in result.refused],
            why_none=_why_none(group.stats.triggered, made, result),
        )
        if group.is_kept:
            self.progress.restored_one(line)
        else:
            self.progress.group_done(line)
            if self.tracking is not None:
                self.tracking.group(step.number + 1, group, len(line.saved), len(result.state.experiences))


def _trial_rows(state: LibraryState) -> list[tuple[str, str]]:
    """What was measured: how many experiences, and the best of them."""
    measured = [one for one in state.experiences if one.trial is not None]
    if not measured and not state.retired:
        return []
    helpful = [one for one in measured if state.trials.belief(one.id).p_helps >= _PROBABLE]
    rows = [
        (
            "experiences on trial",
            f"{len(measured)} measured in {state.trials.groups} groups, {len(helpful)} of them probably help; "
            f"{len(state.retired)} retired",
        )
    ]
    best = max(helpful, key=lambda one: state.trials.belief(one.id).effect, default=None)
    if best is not None and best.trial is not None:
        belief = state.trials.belief(best.id)
        rows.append(
            (
                "largest effect",
                f"{best.id} {100 * belief.effect:+.0f} points (helps with p = {belief.p_helps:.2f}, "
                f"{best.trial.differences} groups)",
            )
        )
    return rows


async def _to_the_end(function: Callable[P, ReturnT], *args: P.args, **kwargs: P.kwargs) -> ReturnT:
    """As ``asyncio.to_thread``; a cancelled caller waits for the end of the call, so that its files stay locked."""
    call = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait({call})
        raise


def _refusal(refusal: Refusal) -> str:
    """A refusal as a sentence, with what it is about."""
    about = f'"{refusal.operation.content}"' if refusal.operation.content else refusal.operation.id or "an operation"
    return f"{about}: {refusal.message or refusal.reason.replace('_', ' ')}"


def _why_none(triggered: bool, made: _StepResult[Any], result: StepResult) -> str:
    """Why a group that triggered has changed nothing and had nothing refused; empty for other groups."""
    if not triggered or result.applied or result.refused:
        return ""
    proposal = made.proposal
    if proposal is None:
        return made.not_asked or "an earlier start has recorded this group"
    if proposal.fault is not None:
        return f"the analyst's reply cannot be used ({proposal.fault.message or proposal.fault.kind})"
    return "the analyst proposed no change to the library"
