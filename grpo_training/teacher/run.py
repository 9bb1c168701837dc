"""The teacher's loop: problems overlap in a window, every reply is scored, a problem's traces are stored together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from tqdm import tqdm

from engine.errors import InputError
from engine.records import Fault, Message, Problem
from engine.storage.rollout_store import BrokenLine, RolloutStore, read_each
from grpo_training.agents.teacher import TeacherAgent, TeacherReply
from grpo_training.cli.bar import note, progress_bar
from grpo_training.runs.window import in_window
from grpo_training.teacher.settings import TeacherSettings
from grpo_training.teacher.traces import (
    KeptTrace,
    TeacherMetadata,
    TeacherTrace,
    TraceStatistics,
    accept,
    messages_hash,
)
from grpo_training.teacher.verdicts import scored_fields

_UNAVAILABLE = "the endpoint is probably not available."
GIVE_UP = 8
"""The run stops after this many open problems in a row: the endpoint is probably not available."""

_WINDOW_PER_SLOT = 2  # problems per request in flight, so that one long reply does not delay the others


@dataclass
class TeacherRun:
    """One start of the command.

    Args:
        agent: asks the teacher.
        canonical: :meth:`engine.task_protocols.PreparesData.canonical` of the agent's task.
        store: file of the traces; the caller holds its lock.
        settings: samples, concurrency, and which traces are accepted.
        config_hash: hash of what changes a trace; stored traces with another hash do not count as done.
    """

    agent: TeacherAgent
    canonical: Callable[[str], str]
    store: RolloutStore
    settings: TeacherSettings
    config_hash: str
    statistics: TraceStatistics = field(default_factory=TraceStatistics)
    open: list[str] = field(default_factory=list)
    written: int = 0
    why_stopped: str = ""
    """A sentence about a run that ended before its last problem, after a space."""
    _kept: dict[str, list[KeptTrace]] = field(default_factory=dict)
    _open_in_a_row: int = 0
    _bar: tqdm[Any] | None = None

    async def ask_all(self, problems: Sequence[Problem]) -> None:
        """Ask for all missing traces, in the order of the problems.

        A problem with a reply that is missing after all attempts is listed in ``open``, and none of its traces is
        written: which traces are accepted must not depend on which call failed.
        """
        broken: list[BrokenLine] = []
        for trace in read_each(self.store.path, TeacherTrace, broken, missing_ok=True):
            self.statistics.add(trace)
            self._kept.setdefault(trace.task_id, []).append(KeptTrace.of(trace, self.canonical))
        for line in broken:
            note(f"skipped {line}")
        with progress_bar(total=len(problems), unit="task", dynamic_ncols=True) as self._bar:
            to_ask = takewhile(lambda _: not self.why_stopped, problems)
            window = _WINDOW_PER_SLOT * self.settings.concurrency
            async with aclosing(in_window(to_ask, window, self._work)) as answered:
                async for problem, result in answered:
                    if not self.why_stopped:
                        self._commit(problem, result)

    def _missing(self, problem: Problem, messages: Sequence[Message]) -> list[int]:
        """The sample indices that no stored trace of this configuration has.

        Raises:
            InputError: the stored traces with this problem's id were made with other messages.
        """
        words = messages_hash(messages)
        done = set()
        for trace in self._kept.get(problem.id, ()):
            if trace.config_hash != self.config_hash:
                continue
            if trace.messages != words:
                raise InputError(
                    f"{self.store.path} holds traces of another problem under the id {problem.id}",
                    why="The data changed, or the file belongs to another dataset.",
                    fix="Pass --fresh to set those traces aside, or choose another --output.",
                )
            done.add(trace.sample_idx)
        return [index for index in range(self.settings.num_samples) if index not in done]

    async def _work(self, problem: Problem) -> list[TeacherTrace] | Fault:
        messages = self.agent.messages(problem)
        missing = self._missing(problem, messages)
        if not missing:
            return []
        replies = await self.agent.answer(problem, missing)
        for reply in replies:
            if reply.candidate is None:
                return reply.reply.fault or Fault(kind="unknown")
        results = await asyncio.gather(*(asyncio.to_thread(self._score, problem, messages, reply) for reply in replies))
        if fault := next((result for result in results if isinstance(result, Fault)), None):
            return fault
        traces = [result for result in results if isinstance(result, TeacherTrace)]
        kept, most, max_chars = self._kept.get(problem.id, ()), self.settings.accept_per_task, self.settings.max_chars
        return await asyncio.to_thread(accept, traces, kept, self.canonical, most=most, max_chars=max_chars)

    def _score(self, problem: Problem, messages: tuple[Message, ...], answer: TeacherReply) -> TeacherTrace | Fault:
        """A scored reply; a fault if it could not be scored."""
        assert answer.candidate is not None
        scored = scored_fields(self.agent.task, problem, answer.candidate)
        if isinstance(scored, Fault):
            return scored
        completion = answer.reply.completion  # None if the endpoint refused this prompt
        metadata = {} if completion is None else completion.model_dump(include=set(TeacherMetadata.model_fields))
        return TeacherTrace(
            task_id=problem.id,
            dataset=_text(problem, "dataset"),
            difficulty=_text(problem, "difficulty"),
            prompt=problem.text,
            thinking=answer.thinking,
            full_response=completion.text if completion else "",
            teacher_metadata=TeacherMetadata(**metadata),
            test_setup_code=_text(problem, "test_setup_code"),
            sample_idx=answer.reply.sample_index,
            messages=messages,
            prompt_hash=self.agent.prompt_hash,
            config_hash=self.config_hash,
            **scored,
        )

    def _commit(self, problem: Problem, result: list[TeacherTrace] | Fault) -> None:
        if self._bar is not None:
            self._bar.update()
        if isinstance(result, Fault):
            self.open.append(f"{problem.id}: {result.message or result.kind}")
            self._open_in_a_row += 1
            note(f"no traces written for {self.open[-1]}")
            if self._open_in_a_row == GIVE_UP:
                self.why_stopped = f" The run stopped after {GIVE_UP} such problems in a row: {_UNAVAILABLE}"
            return
        self._open_in_a_row = 0
        for trace in result:
            self.store.append(trace)
            self.statistics.add(trace)
            self.written += 1


def _text(problem: Problem, name: str) -> str:
    """What a row says under a name, as text: a difficulty may be a number."""
    value = problem.meta.get(name)
    return "" if value is None else str(value)
