"""The generator: answers one problem several times, each time as a candidate of its task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.chat import Answer, ask
from engine.records import Candidate, ChatRequest, Experience, Outcome, Problem, Reply, Sampling
from prompts import PromptTemplate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents.chat import ChatClient
    from engine.tasks.task import Task


class GeneratorAgent:
    """One of the three generators; they differ in their role only, that is in endpoint and library.

    Args:
        client: draws the samples.
        role: ``generator_1`` ... ``generator_3``.
        sampling: how replies are drawn.
        style: prompt style.
    """

    def __init__(self, client: ChatClient, role: str, sampling: Sampling, style: str = "full") -> None:
        self.role = role
        self._client = client
        self.sampling = sampling
        self._template = self.template(style)
        self.prompt_hash = self._template.hash

    @staticmethod
    def template(style: str) -> PromptTemplate:
        """The prompt, checked."""
        return PromptTemplate("generator", {"problem", "experiences", "answer_form"}, style)

    async def answer(
        self, task: Task, problem: Problem, experiences: Sequence[Experience], sample_indices: Sequence[int]
    ) -> list[Answer[Candidate]]:
        """Answer a problem once per sample index, with the lessons given."""
        request = ChatRequest(
            role=self.role,
            messages=self._template.render(
                problem=problem.text, experiences=list(experiences), answer_form=task.answer_form
            ),
            sampling=self.sampling,
            json_schema=task.reply_schema,
            purpose="rollout",
        )
        return await ask(
            self._client,
            request,
            sample_indices,
            lambda reply: read_candidate(task, problem, reply),
            re_ask_reason,
        )


def read_candidate(task: Task, problem: Problem, reply: Reply) -> Candidate:
    """The candidate of a reply that is no infrastructure fault."""
    if reply.completion is None:  # the endpoint refused this very prompt (content filter, context length)
        return Candidate(outcome=Outcome.MODEL_FAULT, fault=reply.fault)
    return task.parse(reply.completion.text, problem)


def re_ask_reason(candidate: Candidate) -> str | None:
    """Why a candidate deserves a re-ask: its reply held no readable object. A cut-off reply would be again."""
    if candidate.outcome is Outcome.OK or candidate.fault is None or candidate.scaffold is not None:
        return None
    return None if candidate.fault.kind in ("cut_off", "too_large") else candidate.fault.message
