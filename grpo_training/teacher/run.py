"""The loop of the teacher: tasks overlap in a window, every reply is executed, a task's traces are kept together."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.errors import InputError
from engine.records import Fault, Outcome
from engine.storage.rollout_store import BrokenLine, follow
from engine.tasks.code.problems import facts_of
from grpo_training.cli.terminal_text import LastingStream, harmless
from grpo_training.learning.window import run_in_window
from grpo_training.teacher.traces import (
    KeptTrace,
    TeacherMetadata,
    TeacherTrace,
    TestVerdict,
    TraceStatistics,
    accept,
    messages_hash,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from tqdm import tqdm

    from agents.teacher import TeacherAgent, TeacherReply
    from engine.records import Candidate, Completion, Message, Problem
    from engine.storage.rollout_store import RolloutStore
    from engine.task import Measurement, Task

GIVE_UP = 8
"""So many tasks in a row that stay open end the run: the endpoint is gone, and waiting for each is a waste."""

_WINDOW_PER_SLOT = 2  # tasks in flight for each request in flight, so that one long reply holds back nobody


@dataclass(frozen=True)
class AcceptanceRule:
    """How many traces of a task are accepted, and of how many characters, at most."""

    per_task: int
    max_chars: int


@dataclass
class TeacherRun:
    """One start of the command.

    Args:
        agent: asks.
        task: reads and measures.
        store: where traces are kept; held by the caller.
        samples: traces that a task shall have.
        concurrency: requests in flight at most.
        rule: which traces may be imitated.
        config_hash: of what shapes a trace; a stored trace of another one does not count as done.
        stream: where notes go.
    """

    agent: TeacherAgent
    task: Task
    store: RolloutStore
    samples: int
    concurrency: int
    rule: AcceptanceRule
    config_hash: str
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    statistics: TraceStatistics = field(default_factory=TraceStatistics)
    open: list[str] = field(default_factory=list)
    written: int = 0
    _kept: dict[str, list[KeptTrace]] = field(default_factory=dict)
    _open_in_a_row: int = 0
    _bar: tqdm[Any] | None = None

    async def go(self, problems: Sequence[Problem]) -> None:
        """Ask for all traces that are missing, in the problems' order.

        A task of which a reply is missing after all attempts stays open: it is named in ``open``, and none of
        its traces is written, so that what is accepted never hangs on which call failed.
        """
        from tqdm import tqdm

        await self._read_store()
        lasting = LastingStream(self.stream)
        with tqdm(total=len(problems), unit="task", file=lasting, mininterval=0.5, dynamic_ncols=True) as self._bar:
            await run_in_window(problems, _WINDOW_PER_SLOT * self.concurrency, self._work, self._commit)

    # -------------------------------------------------------------- what is there

    async def _read_store(self) -> None:
        broken: list[BrokenLine] = []
        async for trace in follow(self.store.path, TeacherTrace, stop=lambda: True, broken=broken):
            self.statistics.add(trace)
            self._kept.setdefault(trace.task_id, []).append(KeptTrace.of(trace))
        for line in broken:
            self._note(f"skipped {line}")

    def _missing(self, problem: Problem, messages: Sequence[Message]) -> list[int]:
        """The sample indices that no stored trace of this configuration has.

        Raises:
            InputError: the stored traces of this task's id were asked with other words.
        """
        words = messages_hash(messages)
        done = set()
        for trace in self._kept.get(problem.id, ()):
            if trace.config_hash != self.config_hash:
                continue
            if trace.messages != words:
                raise InputError(
                    f"{self.store.path} holds traces of another problem under the id {problem.id}",
                    why="The data changed, or the file belongs to another set.",
                    fix="Choose --fresh (set those traces aside) or another --output.",
                )
            done.add(trace.sample_idx)
        return [index for index in range(self.samples) if index not in done]

    # -------------------------------------------------------------- one task

    async def _work(self, _place: int, problem: Problem) -> list[TeacherTrace] | Fault:
        messages = self.agent.messages(problem)
        missing = self._missing(problem, messages)
        if not missing:
            return []
        replies = await self.agent.answer(problem, missing)
        for reply in replies:
            if reply.candidate is None:
                return reply.reply.fault or Fault(kind="unknown")
        results = await asyncio.gather(
            *(asyncio.to_thread(self._execute, problem, messages, reply) for reply in replies)
        )
        traces: list[TeacherTrace] = []
        for result in results:
            if isinstance(result, Fault):
                return result
            traces.append(result)
        kept = self._kept.get(problem.id, ())
        return await asyncio.to_thread(accept, traces, kept, most=self.rule.per_task, max_chars=self.rule.max_chars)

    def _execute(self, problem: Problem, messages: tuple[Message, ...], answer: TeacherReply) -> TeacherTrace | Fault:
        """A reply with its verdict; a fault where the sandbox could not find it out."""
        candidate, completion = answer.candidate, answer.reply.completion
        if candidate is None:
            return answer.reply.fault or Fault(kind="unknown")
        measured = self.task.evaluate(candidate, problem)
        if measured.outcome is Outcome.INFRA_FAULT:
            return Fault(kind="verifier_unavailable", message=str(measured.detail.get("why", "")))
        facts = facts_of(problem)
        return TeacherTrace(
            task_id=problem.id,
            dataset=problem.meta.get("dataset") or "",
            difficulty=problem.meta.get("difficulty") or "",
            prompt=problem.text,
            thinking=answer.thinking,
            code=candidate.content.code or "" if candidate.content else "",
            full_response=completion.text if completion else "",
            teacher_metadata=_metadata(completion),
            test_list=problem.meta.get("test_list") or [dict(test) for test in facts.tests],
            test_setup_code=problem.meta.get("test_setup_code") or "",
            sample_idx=answer.reply.sample_index,
            messages=messages,
            prompt_hash=self.agent.prompt_hash,
            config_hash=self.config_hash,
            status=_status(candidate),
            verdict=_verdict(measured, len(facts.tests)),
        )

    def _commit(self, _place: int, problem: Problem, result: list[TeacherTrace] | Fault) -> bool:
        if self._bar is not None:
            self._bar.update()
        if isinstance(result, Fault):
            self.open.append(f"{problem.id}: {result.kind} {result.message}".strip())
            self._open_in_a_row += 1
            self._note(f"open: {self.open[-1]}")
            return self._open_in_a_row < GIVE_UP
        self._open_in_a_row = 0
        for trace in result:
            self.store.append(trace)
            self.statistics.add(trace)
            self.written += 1
        return True

    def _note(self, text: str) -> None:
        from tqdm import tqdm

        tqdm.write(harmless(text), file=self.stream)


def _status(candidate: Candidate) -> str:
    if candidate.content is not None:
        return str(candidate.content.status)
    return candidate.fault.kind if candidate.fault else "no_reply"


def _metadata(completion: Completion | None) -> TeacherMetadata:
    if completion is None:  # the endpoint refused this very prompt
        return TeacherMetadata()
    return TeacherMetadata(
        model=completion.model,
        usage=completion.usage,
        finish_reason=completion.finish_reason,
        latency_s=completion.latency_s,
    )


def _verdict(measured: Measurement, total: int) -> TestVerdict:
    """``tests`` counts the statuses in the order in which they first came."""
    tests = measured.detail.get("tests", {})
    if not tests:
        return TestVerdict(total=total)
    first = next((status for status in tests if status != "pass"), "pass")
    return TestVerdict(passed=measured.detail["passed"], total=measured.detail["total"], status=first)
