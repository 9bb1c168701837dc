"""The learning loop: groups are stored when they are scored, and change the library in problem order."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Generic, ParamSpec, Protocol, TypeVar

from agents.analyst import Proposal
from engine.errors import IncompleteRunError
from engine.experience.events import Refusal
from engine.experience.log import StepResult
from engine.experience.state import EMPTY, LibraryState
from engine.records import Fault, Operation, Outcome
from engine.statistics.groups import DeadRewardWatch
from grpo_training.cli.progress import Progress, Row
from grpo_training.cli.terminal_text import counted
from grpo_training.learning.extractor import ExperienceExtractor, ScoredFigures, ScoredGroup, Step
from grpo_training.runs.window import as_they_come, run_in_window

RecordT = TypeVar("RecordT")
P = ParamSpec("P")
ReturnT = TypeVar("ReturnT")

_RESTORED_AT_ONCE = 256
"""Groups that are counted before the display has its turn."""
_MOST_REFUSED_FIRST = 8
"""A run stops after so many problems that the endpoint refuses, if it has answered none."""
_PROBABLE = 0.8
"""The probability from which on an experience is said to help."""


class GroupProducer(Protocol[RecordT]):
    """Makes the groups of a learner and stores them."""

    async def produce(self, step: Step, state: LibraryState) -> ScoredGroup[RecordT] | Fault:
        """The group of a step, asked for with the given experiences; or the fault that leaves the step open."""

    def stored(self, step: Step) -> ScoredFigures | None:
        """The figures of a group that is stored and complete; None: it has to be produced, or read."""

    def keep(self, record: RecordT) -> None:
        """Store the record of a group durably. Called in another thread, one call at a time."""


@dataclass(frozen=True)
class _Worked(Generic[RecordT]):
    """The work on a step: a stored group and the analyst's proposal, if it was asked, or what left the step open."""

    group: ScoredGroup[RecordT] | None
    proposal: Proposal | None = None
    fault: Fault | None = None
    was_asked: bool = True


@dataclass
class LearningLoop(Generic[RecordT]):
    """The loop of one start of a learner.

    Args:
        window: W; the prompt of step k has the experiences of steps up to k - W.
        extractor: turns groups into experiences.
        producer: makes and stores groups.
        progress: displays the run.
    """

    window: int
    extractor: ExperienceExtractor
    producer: GroupProducer[RecordT]
    progress: Progress
    open: list[str] = field(default_factory=list)
    members: int = 0
    re_asked: int = 0
    repaired: int = 0
    with_logprobs: int = 0
    _start: LibraryState = EMPTY
    _committed: list[LibraryState] = field(default_factory=list)
    _watch: DeadRewardWatch = field(default_factory=DeadRewardWatch)
    _not_asked: Counter[str] = field(default_factory=Counter)
    _storing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _groups: int = 0
    _is_halted: bool = False
    _with_experiences: int = 0
    _restored: int = 0
    """Steps before the first that is worked on."""

    async def run(self, steps: Iterable[Step] | AsyncIterator[Step]) -> None:
        """Run all steps.

        A step whose request alone failed stays open, and later ones go on with the library as it was before it.

        Raises:
            IncompleteRunError: a step stayed open for another reason, and later steps need its result; or all did.
        """
        self._start = self.extractor.begin()
        for notice in self.extractor.library.notices:
            self.progress.note(notice)
        ticks = asyncio.ensure_future(self._tick())
        try:
            await run_in_window(self._open_steps(steps), self.window, self._work, self._commit)
        finally:
            ticks.cancel()
        if self.open and (self._is_halted or not self._groups):
            raise IncompleteRunError(
                f"Stopped: {self.open[-1]}",
                why="All attempts failed, and later prompts depend on this problem. Nothing was scored as wrong."
                if self._groups
                else "The endpoint has answered none of the problems. Nothing was scored as wrong.",
                fix="Run the same command again to continue from there. Stored replies are reused.",
            )

    def summary_rows(self) -> list[Row]:
        """Rows of the final table: library, effect, open steps; as details repairs and ranges of the rewards."""
        state = self.extractor.library.state
        library = [
            Row("library", f"{counted(len(state.experiences), 'experience')} (version {state.version})"),
            *_trial_rows(state),
        ]
        rows = [
            *(library if self.extractor.learns else []),
            *(
                Row("analyst not asked", f"for {counted(count, 'group')}: {reason}")
                for reason, count in self._not_asked.items()
            ),
            Row("replies repaired / re-asked", f"{self.repaired} / {self.re_asked} of {self.members}", is_detail=True),
        ]
        for item in self._watch.summary():
            alarm = f"  ⚠ {item.dead.reason}" if item.dead else ""
            rows.append(Row(item.component, f"{item.low:.3f} to {item.high:.3f}{alarm}", is_detail=not alarm))
        left = dict.fromkeys(self.open)  # a problem has one group in each epoch
        if left:
            rows.append(Row("open problems", f"{len(left)}; the same command asks for these again"))
        return rows + [Row("open", text) for text in left]

    def prompts_row(self) -> Row:
        """In how many groups the prompts had experiences."""
        used = f"experiences were in the prompts of {self._with_experiences} of {counted(self._groups, 'group')}"
        return Row("learning", f"{used} (--window {self.window})")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.progress.tick()

    async def _open_steps(self, steps: Iterable[Step] | AsyncIterator[Step]) -> AsyncIterator[Step]:
        """The steps from the first one on that earlier starts have left something to do for; the others are counted."""
        arriving = steps if isinstance(steps, AsyncIterator) else as_they_come(steps)
        is_restoring = True
        async for step in arriving:
            if is_restoring and self._restore(step):
                self._restored += 1
                if self._restored % _RESTORED_AT_ONCE == 0:
                    await asyncio.sleep(0)
                continue
            is_restoring = False
            yield step

    def _restore(self, step: Step) -> bool:
        """Count a step from the figures of its group; False if something is left to do for it."""
        recorded = self.extractor.recorded(step)
        figures = None if recorded is None else self.producer.stored(step)
        if recorded is None or figures is None:
            return False
        self._count(step, figures, is_kept=True)
        self._committed.append(recorded.state)
        saved = [_saved(operation) for operation in recorded.applied]
        self.progress.ended(step.number, step.problem.id, saved=saved, is_new=False)
        return True

    async def _work(self, number: int, step: Step) -> _Worked[RecordT]:
        k = self._restored + number
        state = self._committed[k - self.window] if k >= self.window else self._start
        self.extractor.recorded(step)  # refuses a changed problem before anything is paid for
        self.progress.begun(step.number, step.problem.id)
        group = await self.producer.produce(step, state)
        if isinstance(group, Fault):
            return _Worked(None, fault=group)
        if not group.is_kept:
            async with self._storing:
                await _to_the_end(self.producer.keep, group.record)
        self._count(step, group.figures, is_kept=group.is_kept)
        reason = self.extractor.why_not_asked(step, group, state)
        if reason:
            self._not_asked[reason] += 1
            if self._not_asked[reason] == 1:  # the others are a number in the table
                self.progress.note(reason)
        proposal = await self.extractor.propose(step, group, state)
        if proposal is not None and proposal.outcome is Outcome.INFRA_FAULT:
            return _Worked(group, fault=proposal.fault or Fault(kind="analyst_unreachable"))
        return _Worked(group, proposal, was_asked=not reason)

    async def _commit(self, k: int, step: Step, result: _Worked[RecordT]) -> bool:
        group = result.group
        if group is None or result.fault is not None:
            fault = result.fault or Fault(kind="unknown")
            self.open.append(f"{step.problem.id}: {fault.message or fault.kind}")
            self._is_halted = not fault.is_alone or (not self._groups and len(self.open) >= _MOST_REFUSED_FIRST)
            self._committed.append(self._committed[-1] if self._committed else self._start)
            self.progress.ended(step.number, step.problem.id, is_new=False)
            return not self._is_halted
        is_new = self.extractor.recorded(step) is None
        recorded = await _to_the_end(self.extractor.record, step, group, result.proposal)
        self._committed.append(recorded.state)
        self.progress.ended(
            step.number,
            step.problem.id,
            saved=[_saved(operation) for operation in recorded.applied],
            refused=[_refusal(refusal) for refusal in recorded.refused],
            why_none=_why_none(result, recorded) if group.stats.triggered and self.extractor.learns else "",
            is_new=is_new,
        )
        return True

    def _count(self, step: Step, figures: ScoredFigures, *, is_kept: bool) -> None:
        """Count and show a group; ``is_kept``: an earlier start has stored it."""
        self._groups += 1
        self._with_experiences += figures.has_experiences
        self.members += figures.size
        self.re_asked += figures.re_asked
        self.repaired += figures.repaired
        self.with_logprobs += figures.with_logprobs
        for alarm in self._watch.feed(figures.rewards):
            self.progress.note(f"⚠ dead reward: {alarm.reason}")
        shown = figures if self.extractor.learns else replace(figures, triggered=None)
        if is_kept:
            self.progress.restored_one(step.number, shown)
        else:
            self.progress.scored(step.number, step.problem.id, shown)


def _saved(operation: Operation) -> str:
    """An operation that the library has applied, with the id of its experience."""
    return f"{operation.id} {operation.content}" if operation.content else f"{operation.op} {operation.id}"


def _trial_rows(state: LibraryState) -> list[Row]:
    """What was measured: how many experiences, and the best of them."""
    measured = [one for one in state.experiences if one.trial is not None]
    if not measured and not state.retired:
        return []
    helpful = [one for one in measured if state.trials.belief(one.id).p_helps >= _PROBABLE]
    found = f"{len(helpful)} of {len(measured)} measured probably help; {len(state.retired)} retired"
    rows = [Row("experiences on trial", f"{found} ({counted(state.trials.groups, 'group')})")]
    best = max(helpful, key=lambda one: state.trials.belief(one.id).effect, default=None)
    if best is not None and best.trial is not None:
        belief = state.trials.belief(best.id)
        evidence = f"helps with p = {belief.p_helps:.2f}, {counted(best.trial.differences, 'group')}"
        rows.append(Row("largest effect", f"{best.id} {100 * belief.effect:+z.0f} points expected ({evidence})"))
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


def _why_none(step: _Worked[RecordT], recorded: StepResult) -> str:
    """Why the analyst has changed nothing; empty if it has, if operations were refused, or if it was not asked."""
    if recorded.applied or recorded.refused or not step.was_asked:
        return ""
    if step.proposal is None:
        return "an earlier start has recorded this group"
    if step.proposal.fault is not None:
        return f"the analyst's reply cannot be used ({step.proposal.fault.message or step.proposal.fault.kind})"
    return "the analyst proposed no change to the library"
