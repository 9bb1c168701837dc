"""The learning loop: what is done for each problem, in order.

Problems overlap within a window: a group is stored as soon as it is scored, and the library changes in problem order.
The prompts of problem k have the experiences of the problems up to k - W, whatever ended first, so that equal runs have
equal libraries. If one problem takes much longer than usual, later ones do not wait for it: they are asked with the
library as it is then. The manifest keeps which these are, so that a resumed run asks them in the same way.
"""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import ParamSpec, Protocol, TypeVar

from engine.errors import IncompleteRunError
from engine.experience.log import StepResult
from engine.experience.state import LibraryState
from engine.records import Fault, Outcome
from engine.statistics.groups import DeadRewardWatch
from engine.storage.rollout_store import RolloutStore
from grpo_training.agents.analyst import Proposal
from grpo_training.cli.progress import Progress
from grpo_training.learning.analysis import ExperienceExtractor, refusal_text, saved_text
from grpo_training.learning.experience_choice import DrawnExperiences
from grpo_training.learning.scored_groups import ScoredFigures, ScoredGroup, Step
from grpo_training.runs.run import RunManifest
from grpo_training.runs.window import as_they_come, run_in_window

P = ParamSpec("P")
ReturnT = TypeVar("ReturnT")

_RESTORED_AT_ONCE = 256
"""Groups that are counted before the display has its turn."""
_MOST_REFUSED_FIRST = 8
"""A run stops after so many problems that the endpoint refuses, if it has answered none."""
_LATE = 3
"""A problem is late after so many times the median time of those before it ..."""
_EARLIEST_LATE_S = 2.0  # ... and not before this, as short times vary
_RECENT = 64
"""Problems whose times are compared."""


class Draw(Protocol):
    """Chooses the experiences of a group's prompts."""

    async def draw(self, step: Step, state: LibraryState) -> DrawnExperiences:
        """Those for a step, from a state of the library; the same whenever it is called."""


class GroupMaker(Protocol):
    """How a learner makes the group of a step: the rollouts of a generator, or the fusions of the critic."""

    def stored_figures(self, step: Step) -> ScoredFigures | None:
        """The figures of a group that is stored and complete, without reading it; None: they are not known."""

    def stored(self, step: Step) -> ScoredGroup | None:
        """The group of a step if earlier starts have completed it. Called once, before :meth:`make`."""

    async def make(self, step: Step, drawn: DrawnExperiences) -> ScoredGroup | Fault:
        """Write the prompts, ask for the replies and score them; or the fault that leaves the step open."""


@dataclass(frozen=True)
class _Worked:
    """What was done for a step: a stored group and the analyst's proposal, or the fault that left the step open."""

    group: ScoredGroup | None
    proposal: Proposal | None = None
    fault: Fault | None = None
    was_asked: bool = True


@dataclass
class LoopTotals:
    """Counts over the groups of all starts, for the final table."""

    groups: int = 0
    with_experiences: int = 0
    members: int = 0
    re_asked: int = 0
    repaired: int = 0
    with_logprobs: int = 0

    def add(self, figures: ScoredFigures) -> None:
        """Count a group."""
        self.groups += 1
        self.with_experiences += figures.has_experiences
        self.members += figures.size
        self.re_asked += figures.re_asked
        self.repaired += figures.repaired
        self.with_logprobs += figures.with_logprobs


@dataclass
class LearningLoop:
    """The loop of one start of a learner.

    Args:
        window: W; the prompts of step k have the experiences of the steps up to k - W.
        draw: chooses the experiences of a prompt.
        maker: makes groups.
        store: the cache, where they are stored.
        analysis: asks the analyst, and changes the library.
        manifest: keeps which steps were asked early.
        progress: displays the run.
        may_grow: whether steps beyond the window are asked while its first one is late.
    """

    window: int
    draw: Draw
    maker: GroupMaker
    store: RolloutStore
    analysis: ExperienceExtractor
    manifest: RunManifest
    progress: Progress
    may_grow: bool = False
    open: list[str] = field(default_factory=list)
    totals: LoopTotals = field(default_factory=LoopTotals)
    not_asked: Counter[str] = field(default_factory=Counter)
    watch: DeadRewardWatch = field(default_factory=DeadRewardWatch)
    _states: list[LibraryState] = field(default_factory=list)
    """The library after 0, 1, 2 ... steps."""
    _took_s: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))
    _noted_up_to: int = -1
    _storing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _is_halted: bool = False
    _begun: int = -1
    """The number of the last step that was begun."""
    _restored: int = 0
    """Steps before the first that is worked on."""

    async def run(self, steps: Iterable[Step] | AsyncIterator[Step]) -> None:
        """Run all steps.

        A step whose request alone failed stays open, and later ones go on with the library as it was before it.

        Raises:
            IncompleteRunError: a step stayed open for another reason, and later steps need its result; or all did.
        """
        self._states = [self.analysis.begin()]
        self._noted_up_to = max(self.manifest.asked_early, default=-1)
        for notice in self.analysis.library.notices:
            self.progress.note(notice)
        ticks = asyncio.ensure_future(self._tick())
        try:
            remaining = self._without_restored(steps)
            await run_in_window(remaining, self.window, self._work, self._commit, patience=self._patience_s)
        finally:
            ticks.cancel()
        if self.open and (self._is_halted or not self.totals.groups):
            raise IncompleteRunError(
                f"Stopped: {self.open[-1]}",
                why="All attempts failed, and later prompts depend on this problem. Nothing was scored as wrong."
                if self.totals.groups
                else "The endpoint has answered none of the problems. Nothing was scored as wrong.",
                fix="Run the same command again to continue from there. Stored replies are reused.",
            )

    async def _work(self, number: int, step: Step) -> _Worked:
        """What is done for a step while others are worked on too."""
        self._begun, began = step.number, asyncio.get_running_loop().time()
        self.analysis.recorded(step)  # refuses a changed problem before anything is paid for
        state = await self._library_for(self._restored + number, step)
        self.progress.begun(step.number, step.problem.id)
        group = self.maker.stored(step)
        if group is None:
            drawn = await self.draw.draw(step, state)
            made = await self.maker.make(step, drawn)
            if isinstance(made, Fault):
                return _Worked(None, fault=made)
            group = made
            async with self._storing:
                for record in group.new_records:
                    await _to_the_end(self.store.append, record)
        self._count(step, group.figures, is_kept=group.is_kept)
        why_not_asked = self.analysis.why_not_asked(step, group, state)
        if why_not_asked:
            self.not_asked[why_not_asked] += 1
            if self.not_asked[why_not_asked] == 1:  # the others are a number in the table
                self.progress.note(why_not_asked)
        proposal = await self.analysis.propose(step, group, state)
        if proposal is not None and proposal.outcome is Outcome.INFRA_FAULT:
            return _Worked(group, fault=proposal.fault or Fault(kind="analyst_unreachable"))
        if not group.is_kept:
            self._took_s.append(asyncio.get_running_loop().time() - began)
        return _Worked(group, proposal, was_asked=not why_not_asked)

    async def _commit(self, _: int, step: Step, worked: _Worked) -> bool:
        """Change the library by the result of a step. Called in the order of the steps, one call at a time."""
        group = worked.group
        if group is None or worked.fault is not None:
            fault = worked.fault or Fault(kind="unknown")
            self.open.append(f"{step.problem.id}: {fault.message or fault.kind}")
            self._is_halted = not fault.is_alone or (not self.totals.groups and len(self.open) >= _MOST_REFUSED_FIRST)
            self._states.append(self._states[-1])
            self.progress.ended(step.number, step.problem.id, is_new=False)
            return not self._is_halted
        is_new = self.analysis.recorded(step) is None
        recorded = await _to_the_end(self.analysis.record, step, group, worked.proposal)
        self._states.append(recorded.state)
        self.progress.ended(
            step.number,
            step.problem.id,
            saved=[saved_text(operation) for operation in recorded.applied],
            refused=[refusal_text(refusal) for refusal in recorded.refused],
            why_none=_why_none(worked, recorded) if group.stats.triggered and self.analysis.learns else "",
            is_new=is_new,
        )
        return True

    async def _library_for(self, k: int, step: Step) -> LibraryState:
        """The state of the library for the prompts of the k-th step: that after step k - W.

        A step that is started beyond the window has the newest state. It is noted before anything is asked, as a
        resumed run has to ask with the same prompts.
        """
        wanted = max(0, k + 1 - self.window)
        noted = self.manifest.asked_early.get(step.number)
        if noted is not None:
            wanted = min(wanted, noted)
        elif wanted >= len(self._states):
            wanted = len(self._states) - 1
            if self.analysis.learns:
                async with self._storing:
                    await _to_the_end(self.manifest.note_early, step.number, wanted)
        return self._states[wanted]

    def _patience_s(self) -> float | None:
        """The seconds after which the first step of the window is late; None: it is waited for.

        So it is until the steps have begun that an earlier start has asked early, as they need the states of that time.
        """
        if not self.may_grow or not self._took_s or self._begun < self._noted_up_to:
            return None
        return max(_EARLIEST_LATE_S, _LATE * statistics.median(self._took_s))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.progress.tick()

    async def _without_restored(self, steps: Iterable[Step] | AsyncIterator[Step]) -> AsyncIterator[Step]:
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
        recorded = self.analysis.recorded(step)
        figures = None if recorded is None else self.maker.stored_figures(step)
        if recorded is None or figures is None:
            return False
        self._count(step, figures, is_kept=True)
        self._states.append(recorded.state)
        saved = [saved_text(operation) for operation in recorded.applied]
        self.progress.ended(step.number, step.problem.id, saved=saved, is_new=False)
        return True

    def _count(self, step: Step, figures: ScoredFigures, *, is_kept: bool) -> None:
        """Count and show a group; ``is_kept``: an earlier start has stored it."""
        self.totals.add(figures)
        for alarm in self.watch.feed(figures.rewards):
            self.progress.note(f"⚠ dead reward: {alarm.reason}")
        shown = figures if self.analysis.learns else replace(figures, triggered=None)
        if is_kept:
            self.progress.restored_one(step.number, shown)
        else:
            self.progress.scored(step.number, step.problem.id, shown)


async def _to_the_end(function: Callable[P, ReturnT], *args: P.args, **kwargs: P.kwargs) -> ReturnT:
    """As ``asyncio.to_thread``; a cancelled caller waits for the end of the call, so that its files stay locked."""
    call = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait({call})
        raise


def _why_none(worked: _Worked, recorded: StepResult) -> str:
    """Why the analyst has changed nothing; empty if it has, if operations were refused, or if it was not asked."""
    if recorded.applied or recorded.refused or not worked.was_asked:
        return ""
    if worked.proposal is None:
        return "an earlier start has recorded this group"
    if worked.proposal.fault is not None:
        return f"the analyst's reply cannot be used ({worked.proposal.fault.message or worked.proposal.fault.kind})"
    return "the analyst proposed no change to the library"
