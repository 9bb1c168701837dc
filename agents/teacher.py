"""The teacher: a stronger model that answers a problem several times with its thinking and its code."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agents.generator import generator_messages, prompt_hash, read_candidate
from engine.records import Candidate, ChatRequest, Message, Outcome, Problem, Reply, Sampling
from engine.tasks.code.reply import extract

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents.chat import ChatClient
    from engine.task import Task

ROLE = "teacher"


@dataclass(frozen=True)
class TeacherReply:
    """A reply as it came.

    Args:
        reply: what the client gave.
        thinking: its reasoning, from the field that the endpoint gives it in or from its tags; None: there is none.
        candidate: what the task read, to be measured; None for an infrastructure fault.
    """

    reply: Reply
    thinking: str | None
    candidate: Candidate | None


class TeacherAgent:
    """Asks the teacher with the very words that the student is asked with, and never twice about one reply.

    Args:
        client: draws the samples.
        task: the problems' task.
        sampling: how replies are drawn; what else the server needs (``presence_penalty``,
            ``chat_template_kwargs``) stands in the endpoint's ``extra_body``.
        style: prompt style, the one that the student is asked in.
        role: the api role.
    """

    def __init__(
        self, client: ChatClient, task: Task, sampling: Sampling, style: str = "full", role: str = ROLE
    ) -> None:
        self._client, self._task, self._style = client, task, style
        self.sampling, self.role = sampling, role
        self.prompt_hash = prompt_hash(task, style)

    def messages(self, problem: Problem) -> tuple[Message, ...]:
        """What the teacher is sent: the generator's prompt without lessons."""
        return generator_messages(self._task, problem, (), self._style)

    async def answer(self, problem: Problem, sample_indices: Sequence[int]) -> list[TeacherReply]:
        """Answer a problem once per sample index, in their order."""
        request = ChatRequest(
            role=self.role, messages=self.messages(problem), sampling=self.sampling, purpose="teaching"
        )
        replies = await self._client.sample(request, sample_indices)
        return list(await asyncio.gather(*(asyncio.to_thread(self._read, problem, reply) for reply in replies)))

    def _read(self, problem: Problem, reply: Reply) -> TeacherReply:
        if reply.outcome is Outcome.INFRA_FAULT:
            return TeacherReply(reply, None, None)
        completion = reply.completion
        thinking = extract(completion.text, completion.reasoning).thinking if completion else None
        return TeacherReply(reply, thinking, read_candidate(self._task, problem, reply))
