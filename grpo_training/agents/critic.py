"""The critic: fuses the candidates of one generator, by merging them without a model or by asking one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.records import AnswerSource, Candidate, ChatRequest, Experience, Message, Problem, Reply, Sampling
from engine.task import Task
from engine.task_protocols import schema_of
from grpo_training.agents.chat import ChatClient, with_images
from grpo_training.agents.generator import ask_for_candidates
from grpo_training.agents.templates import check_prompts, role_template


@dataclass(frozen=True)
class FusionInput:
    """A candidate that is fused, with its answer and where that comes from."""

    candidate: Candidate
    answer: str | None
    answer_source: AnswerSource


@dataclass(frozen=True)
class FusedCandidate:
    """A fusion. ``candidate`` is None after an infrastructure fault.

    ``reply`` is None, and ``messages`` (the prompt) empty, if no model was asked.
    """

    candidate: Candidate | None
    merged: Literal["structural", "model"]
    reply: Reply | None = None
    re_asked: bool = False
    messages: tuple[Message, ...] = ()


@dataclass(eq=False)
class CriticAgent:
    """Fuses candidates.

    Args:
        client: draws the samples.
        sampling: sampling parameters.
        style: prompt style; the templates of all tasks are checked here, before the first request.
        role: the api role.
    """

    client: ChatClient
    sampling: Sampling
    style: str = "full"
    role: str = "critic"

    def __post_init__(self) -> None:
        check_prompts(None, self.style)

    async def fuse(
        self,
        task: Task,
        problem: Problem,
        generator_id: str,
        inputs: Sequence[FusionInput],
        experiences: Sequence[Experience],
    ) -> FusedCandidate:
        """Fuse the candidates of one generator for one problem.

        Args:
            task: the task of the problem.
            problem: the problem.
            generator_id: the generator, as named in the prompt.
            inputs: its candidates.
            experiences: the library of the critic.
        """
        merge = task.merge([fusion_input.candidate for fusion_input in inputs], problem)
        if merge.candidate is not None:
            return FusedCandidate(merge.candidate, "structural")
        proposals = [
            {
                "answer": fusion_input.answer,
                "answer_source": fusion_input.answer_source,
                "text": task.show(fusion_input.candidate),
            }
            for fusion_input in inputs
        ]
        request = ChatRequest(
            role=self.role,
            messages=role_template("critic", task, self.style).render(
                problem=problem.text,
                experiences=list(experiences),
                generator_id=generator_id,
                proposals=proposals,
                conflicts=merge.conflicts,
                **task.prompt_values(problem),
            ),
            sampling=self.sampling,
            json_schema=schema_of(task, problem),
            purpose="fusion",
        )
        with_its_images = await with_images(request, task, problem)
        [answer] = await ask_for_candidates(self.client, with_its_images, [0], task, problem)
        return FusedCandidate(answer.read, "model", answer.reply, answer.re_asked, request.messages)
