"""The learning loop: what is done for each problem, in order.

Problems overlap within a window: a group is stored as soon as it is scored, and the library changes in problem order.
The prompts of problem k have the experiences of the problems up to k - W, whatever ended first, so that equal runs have
equal libraries. If one problem takes much longer than usual, later ones do not wait for it: they are asked with the
library as it is then, which the manifest notes, so that a run that is continued asks with the same prompts.
"""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import ParamSpec, TypeVar

from engine.errors import IncompleteRunError
from engine.experience.log import StepResult
from engine.experience.state import LibraryState
from engine.records import Fault, Outcome
from engine.reward_evaluator import Scored
from engine.statistics.groups import DeadRewardWatch
from engine.storage.rollout_store import RolloutStore
from engine.tasks.registry import task_named
from grpo_training.agents.analyst import Proposal
from grpo_training.cli.progress import Progress
from grpo_training.cli.terminal_text import counted
from grpo_training.learning.analysis import ExperienceExtractor, refusal_text, saved_text
from grpo_training.learning.learner import Learner
from grpo_training.learning.scored_groups import ScoredGroup, Step
from grpo_training.runs.run import RunManifest
from grpo_training.runs.window import in_window

P = ParamSpec("P")
ReturnT = TypeVar("ReturnT")

_MOST_REFUSED_FIRST = 8
"""A run stops after so many problems that the endpoint refuses, if it has answered none."""
_LATE = 3
"""A problem is late after so many times the median time of those before it ..."""
_EARLIEST_LATE_S = 2.0  # ... and not before this, as short times vary
_RECENT = 64
"""Problems whose times are compared."""


@dataclass(frozen=True)
class _Worked:
    """What was done for a step: a stored group and the analyst's proposal, or the fault that left the step open."""

    group: ScoredGroup | None = None
    fault: Fault | None = None
    proposal: Proposal | None = None


@dataclass
class LearningLoop:
    """The loop of one start of a learner.

    Args:
        window: W; the prompts of step k have the experiences of the steps up to k - W.
        learner: chooses experiences, asks, and makes groups; None: all groups are stored.
        store: the cache, where groups are stored.
        analysis: asks the analyst, and changes the library.
        manifest: keeps which steps were asked early.
        progress: displays the run.
        may_grow: whether steps beyond the window are asked while its first one is late.

    Attributes:
        open: the problems that are open, each with the reason.
        not_asked: why the analyst was not asked, and about how many groups.
    """

    window: int
    learner: Learner | None
    store: RolloutStore
    analysis: ExperienceExtractor
    manifest: RunManifest
    progress: Progress
    may_grow: bool = False
    open: list[str] = field(default_factory=list)
    not_asked: Counter[str] = field(default_factory=Counter)
    watch: DeadRewardWatch = field(default_factory=DeadRewardWatch)
    _states: list[LibraryState] = field(default_factory=list)
    """The library after 0, 1, 2 ... steps."""
    _took_s: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))
    _begun: int = -1
    """The number of the last step that was begun."""
    _is_halted: bool = False

    async def run(self, steps: Iterable[Step]) -> None:
        """Run all steps.

        A step whose request alone failed stays open, and later ones go on with the library as it was before it.

        Raises:
            IncompleteRunError: a step stayed open for another reason, and later steps need its result; or all did.
        """
        self._states = [self.analysis.begin()]
        for notice in self.analysis.library.notices:
            self.progress.note(notice)
        ticks = asyncio.ensure_future(self._tick())
        try:
            numbered = takewhile(self._goes_on, enumerate(steps))
            async with aclosing(in_window(numbered, self.window, self._work, patience=self._patience_s)) as in_order:
                async for (_, step), worked in in_order:
                    if not self._is_halted:  # after it, those in flight are stored, as their requests are paid for
                        await self._learn(step, worked)
        finally:
            ticks.cancel()
        if self.open and (self._is_halted or not self.progress.totals["groups"]):
            raise IncompleteRunError(
                f"Stopped: {self.open[-1]}",
                why="All attempts failed, and later prompts depend on this problem. Nothing was scored as wrong."
                if self.progress.totals["groups"]
                else "The endpoint has answered none of the problems. Nothing was scored as wrong.",
                fix="Run the same command again to continue from there. Stored replies are reused.",
            )

    def _goes_on(self, numbered: tuple[int, Step]) -> bool:
        """Whether a step is begun. By the library of its prompts, so that a resumed run ends at the same one."""
        index, step = numbered
        if self._is_halted or self.learner is None or not self.learner.may_end:
            return not self._is_halted
        ends = self.analysis.has_learned_enough(step, self._library_for(index, step))
        if ends:
            why = "cases almost surely help, and one more lesson is not expected to"
            self.progress.note(f"Learning ends after {counted(index, 'group')}: {why}")
        return not ends

    async def _work(self, numbered: tuple[int, Step]) -> _Worked:
        """What is done for a step while others are worked on too, and how long it takes."""
        index, step = numbered
        self._begun, began = step.number, asyncio.get_running_loop().time()
        worked = await self._worked(index, step)
        if worked.group is not None and worked.fault is None and not worked.group.is_kept:
            self._took_s.append(asyncio.get_running_loop().time() - began)
        return worked

    async def _worked(self, index: int, step: Step) -> _Worked:
        recorded = self.analysis.recorded(step)  # refuses a changed problem before anything is paid for
        state = self._library_for(index, step)
        self.progress.begun(step.number, step.problem.id)
        group = step.stored if recorded is not None or step.read is None else step.read()
        if group is None:
            group_or_fault = await self._make(step, state)
            if isinstance(group_or_fault, Fault):
                return _Worked(fault=group_or_fault)
            group = group_or_fault
            await _to_the_end(self.store.append, *group.new_records)
        self._count(step, group)
        if recorded is not None or not group.stats.triggered:  # sigma > tau
            return _Worked(group)
        why_not_asked = self.analysis.why_not_asked(step, state)
        if why_not_asked:
            self.not_asked[why_not_asked] += 1
            if self.not_asked[why_not_asked] == 1:  # the others are a number in the table
                self.progress.note(why_not_asked)
            return _Worked(group)
        proposal = await self.analysis.propose(step, group, state)
        if proposal.outcome is Outcome.INFRA_FAULT:
            return _Worked(group, fault=proposal.fault or Fault(kind="analyst_unreachable"))
        return _Worked(group, proposal=proposal)

    def _library_for(self, index: int, step: Step) -> LibraryState:
        """The state of the library for the prompts of a step: that of W steps before.

        A step that is begun beyond the window has the newest state. It is noted before anything is asked, as a resumed
        run has to ask with the same prompts.
        """
        wanted, noted = max(0, index + 1 - self.window), self.manifest.asked_early.get(step.number)
        if noted is not None:
            wanted = min(wanted, noted)
        elif wanted >= len(self._states):
            wanted = len(self._states) - 1
            if self.analysis.learns:
                self.manifest.note_early(step.number, wanted)
        return self._states[wanted]

    def _patience_s(self) -> float | None:
        """The seconds after which the first step of the window is late; None: it is waited for.

        So it is until the steps have begun that an earlier start has asked early, as they need the states of that time.
        """
        if not self.may_grow or not self._took_s or self._begun < max(self.manifest.asked_early, default=-1):
            return None
        return max(_EARLIEST_LATE_S, _LATE * statistics.median(self._took_s))

    async def _make(self, step: Step, state: LibraryState) -> ScoredGroup | Fault:
        """The group of a step: experiences by lot, the replies to its two prompts, and their scores."""
        learner, task = self.learner, task_named(step.problem.task)
        assert learner is not None, "only a learner has groups that are not stored"
        drawn = await learner.draw.draw(step, state)
        answers = await learner.ask(step, drawn)
        if isinstance(answers, Fault):
            return answers
        scores = await asyncio.gather(
            *(learner.scorer.score(task, step.problem, answer.candidate, answer.baseline) for answer in answers)
        )
        fault = next((score for score in scores if isinstance(score, Fault)), None)
        return fault or learner.group(step, drawn, answers, [score for score in scores if isinstance(score, Scored)])

    async def _learn(self, step: Step, worked: _Worked) -> None:
        """Change the library by the result of a step. Called in the order of the steps, one call at a time."""
        group = worked.group
        if group is None or worked.fault is not None:
            fault = worked.fault or Fault(kind="unknown")
            self.open.append(f"{step.problem.id}: {fault.message or fault.kind}")
            is_refusing = not self.progress.totals["groups"] and len(self.open) >= _MOST_REFUSED_FIRST
            self._is_halted = not fault.is_alone or is_refusing
            self._states.append(self._states[-1])
            self.progress.ended(step.number, step.problem.id, is_new=False)
            return
        known = recorded = self.analysis.recorded(step)
        if recorded is None:
            recorded = await _to_the_end(self.analysis.record, step, group, worked.proposal)
        self._states.append(recorded.state)
        self.progress.ended(
            step.number,
            step.problem.id,
            saved=[saved_text(operation) for operation in recorded.applied],
            refused=[refusal_text(refusal) for refusal in recorded.refused],
            why_none=_why_none(worked.proposal, recorded),
            is_new=known is None,
        )

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.progress.tick()

    def _count(self, step: Step, group: ScoredGroup) -> None:
        """Count and show a group."""
        for alarm in self.watch.feed(group.components):
            self.progress.note(f"⚠ dead reward: {alarm.reason}")
        shown = group.shown if self.analysis.learns else replace(group.shown, triggered=None)
        if group.is_kept:
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


def _why_none(proposal: Proposal | None, recorded: StepResult) -> str:
    """Why the analyst has changed nothing; empty if it has, if operations were refused, or if it was not asked."""
    if proposal is None or recorded.applied or recorded.refused:
        return ""
    if proposal.fault is not None:
        return f"the analyst's reply cannot be used ({proposal.fault.message or proposal.fault.kind})"
    return "the analyst proposed no change to the library"
