"""The teacher: samples completions of a stronger model, with their reasoning, for imitation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from engine.records import Candidate, ChatRequest, Message, Outcome, Problem, Reply, Sampling
from engine.task import Task
from grpo_training.agents.chat import ChatClient
from grpo_training.agents.generator import generator_messages, prompt_hash, read_candidate

ROLE = "teacher"


@dataclass(frozen=True)
class TeacherReply:
    """A reply of the teacher.

    Args:
        reply: the reply.
        thinking: its reasoning; None if it has none.
        candidate: what the task read; None after an infrastructure fault.
    """

    reply: Reply
    thinking: str | None
    candidate: Candidate | None


@dataclass(eq=False)
class TeacherAgent:
    """Samples the teacher with the prompt of the student. Unreadable replies are not asked again.

    Args:
        client: draws the samples.
        task: the task of the problems.
        sampling: sampling parameters; further ones (``presence_penalty``, ``chat_template_kwargs``) belong to the
            ``extra_body`` of the endpoint.
        style: prompt style of the student.
    """

    client: ChatClient
    task: Task
    sampling: Sampling
    style: str = "full"

    def __post_init__(self) -> None:
        self.prompt_hash = prompt_hash(self.task, self.style)

    def messages(self, problem: Problem) -> tuple[Message, ...]:
        """The prompt: the generator's, without experiences."""
        return generator_messages(self.task, problem, (), self.style)

    async def answer(self, problem: Problem, sample_indices: Sequence[int]) -> list[TeacherReply]:
        """One reply per sample index, in their order."""
        request = ChatRequest(role=ROLE, messages=self.messages(problem), sampling=self.sampling, purpose="teaching")
        replies = await self.client.sample(request, sample_indices)
        return list(await asyncio.gather(*(asyncio.to_thread(self._read, problem, reply) for reply in replies)))

    def _read(self, problem: Problem, reply: Reply) -> TeacherReply:
        if reply.outcome is Outcome.INFRA_FAULT:
            return TeacherReply(reply, None, None)
        completion = reply.completion
        thinking = self.task.thinking(completion) if completion else None
        return TeacherReply(reply, thinking, read_candidate(self.task, problem, reply))
