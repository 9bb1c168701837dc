"""The generator: samples candidates for a problem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import partial

from engine.records import Candidate, ChatRequest, Experience, Message, Outcome, Problem, Reply, Sampling
from engine.task import JSON_OBJECT, Task
from engine.task_protocols import asked_through, schema_of
from grpo_training.agents.chat import ChatClient, ReadReply, ask, with_images
from grpo_training.agents.templates import check_prompts, role_template


def generator_messages(
    task: Task, problem: Problem, experiences: Sequence[Experience] = (), style: str = "full"
) -> tuple[Message, ...]:
    """The prompt for one candidate; the same in learning, fine-tuning, teaching and evaluation.

    Args:
        task: the task of the problem.
        problem: the problem.
        experiences: the experiences to show.
        style: prompt style.

    Raises:
        TemplateError: there is no such style, or the templates of the task are invalid.
    """
    return role_template("generator", task, style).render(
        problem=problem.text, experiences=list(experiences), **task.prompt_values(problem)
    )


def prompt_hash(task: Task, style: str = "full") -> str:
    """Identifies the templates of :func:`generator_messages`; stored on every record."""
    return role_template("generator", task, style).hash


@dataclass(eq=False)
class GeneratorAgent:
    """One of the three generators. They differ only in their role, which selects endpoint and library.

    Args:
        client: draws the samples.
        role: ``generator_1`` ... ``generator_3``.
        sampling: sampling parameters.
        style: prompt style.
        tasks: the tasks whose templates are checked here, before the first request; None: all.
    """

    client: ChatClient
    role: str
    sampling: Sampling
    style: str = "full"
    _: KW_ONLY
    tasks: InitVar[Iterable[Task] | None] = None

    def __post_init__(self, tasks: Iterable[Task] | None) -> None:
        check_prompts(tasks, self.style)

    async def answer(
        self, task: Task, problem: Problem, experiences: Sequence[Experience], sample_indices: Sequence[int]
    ) -> list[ReadReply[Candidate]]:
        """Sample one candidate per sample index, with the given experiences in the prompt."""
        request = ChatRequest(
            role=self.role,
            messages=generator_messages(task, problem, experiences, self.style),
            sampling=self.sampling,
            # Guided decoding masks tokens, so its log-probs are not those of the model.
            json_schema=None if self.sampling.logprobs else schema_of(task, problem),
            purpose="rollout",
        )
        request = await with_images(request, task, problem)
        client = asked_through(task, self.client)
        return await ask_for_candidates(client, request, sample_indices, task, problem)


async def ask_for_candidates(
    client: ChatClient, request: ChatRequest, sample_indices: Sequence[int], task: Task, problem: Problem
) -> list[ReadReply[Candidate]]:
    """Sample a request for candidates; the model is asked once to send an unreadable one again."""
    read = partial(read_candidate, task, problem)
    form = task.reply_description if schema_of(task, problem) is None else JSON_OBJECT
    return await ask(client, request, sample_indices, read, task.re_ask_reason, form=form)


def read_candidate(task: Task, problem: Problem, reply: Reply) -> Candidate:
    """The candidate of a reply without infrastructure fault."""
    if reply.completion is None:  # the endpoint refused this prompt (content filter, context length)
        return Candidate(outcome=Outcome.MODEL_FAULT, fault=reply.fault)
    return task.parse(reply.completion, problem)
