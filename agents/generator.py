"""The generator: answers one problem several times, each time as a candidate of its task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.chat import Answer, ask
from engine.records import Candidate, ChatRequest, Experience, Message, Outcome, Problem, Reply, Sampling
from engine.task import known_tasks
from prompts import PromptTemplate, task_template

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents.chat import ChatClient
    from engine.task import Task

_VARIABLES = frozenset({"problem", "experiences"})


def generator_messages(
    task: Task, problem: Problem, experiences: Sequence[Experience] = (), style: str = "full"
) -> tuple[Message, ...]:
    """The conversation that asks for one answer: the same in learning, training, teaching and evaluation.

    Args:
        task: the problem's task.
        problem: what is asked.
        experiences: the lessons that stand before it.
        style: prompt style.

    Raises:
        TemplateError: there is no such style, or its templates do not fit the task.
    """
    return generator_template(task, style).render(
        problem=problem.text, experiences=list(experiences), **task.prompt_values(problem)
    )


def prompt_hash(task: Task, style: str = "full") -> str:
    """Names the words of :func:`generator_messages`; stands on every record that was asked with them."""
    return generator_template(task, style).hash


def generator_template(task: Task, style: str = "full") -> PromptTemplate:
    """A task's prompt, checked."""
    return task_template("generator", task.prompts, _VARIABLES | task.prompt_variables, style)


class GeneratorAgent:
    """One of the three generators; they differ in their role only, that is in endpoint and library.

    Args:
        client: draws the samples.
        role: ``generator_1`` ... ``generator_3``.
        sampling: how replies are drawn.
        style: prompt style; the prompts of all tasks are checked here, before anything is paid for.
    """

    def __init__(self, client: ChatClient, role: str, sampling: Sampling, style: str = "full") -> None:
        self.role = role
        self._client = client
        self.sampling = sampling
        self.style = style
        for task in known_tasks():
            generator_template(task, style)

    async def answer(
        self, task: Task, problem: Problem, experiences: Sequence[Experience], sample_indices: Sequence[int]
    ) -> list[Answer[Candidate]]:
        """Answer a problem once per sample index, with the lessons given."""
        request = ChatRequest(
            role=self.role,
            messages=generator_messages(task, problem, experiences, self.style),
            sampling=self.sampling,
            # A server that holds replies to a schema gives log-probs of what the schema left over, not the model's.
            json_schema=None if self.sampling.logprobs else task.reply_schema,
            purpose="rollout",
        )
        return await ask(
            self._client,
            request,
            sample_indices,
            lambda reply: read_candidate(task, problem, reply),
            task.re_ask_reason,
            form=task.reply_form,
        )


def read_candidate(task: Task, problem: Problem, reply: Reply) -> Candidate:
    """The candidate of a reply that is no infrastructure fault."""
    if reply.completion is None:  # the endpoint refused this very prompt (content filter, context length)
        return Candidate(outcome=Outcome.MODEL_FAULT, fault=reply.fault)
    return task.parse(reply.completion.text, problem, reply.completion.reasoning)
