"""The critic: fuses one generator's candidates into one. A merge where they agree, a model where they do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agents.chat import ask
from agents.generator import read_candidate
from engine.records import Candidate, ChatRequest, Experience, Problem, Reply, Sampling
from engine.task import known_tasks
from prompts import PromptTemplate, task_template

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents.chat import ChatClient
    from engine.task import Task

_VARIABLES = frozenset({"problem", "experiences", "generator_id", "proposals", "conflicts"})


def critic_template(task: Task, style: str = "full") -> PromptTemplate:
    """A task's prompt for fusions, checked."""
    return task_template("critic", task.prompts, _VARIABLES | task.prompt_variables, style)


@dataclass(frozen=True)
class FusedCandidate:
    """A fusion; ``candidate`` is None where the call failed for good. ``reply`` is None for a merge."""

    candidate: Candidate | None
    merged: Literal["structural", "model"]
    reply: Reply | None = None
    re_asked: bool = False


class CriticAgent:
    """Fuses candidates.

    Args:
        client: draws the samples.
        sampling: how replies are drawn.
        style: prompt style; the prompts of all tasks are checked here, before anything is paid for.
        role: the api role.
    """

    def __init__(self, client: ChatClient, sampling: Sampling, style: str = "full", role: str = "critic") -> None:
        self.role = role
        self._client = client
        self.sampling = sampling
        self.style = style
        for task in known_tasks():
            critic_template(task, style)

    async def fuse(
        self,
        task: Task,
        problem: Problem,
        generator_id: str,
        candidates: Sequence[Candidate],
        experiences: Sequence[Experience],
    ) -> FusedCandidate:
        """Fuse one generator's candidates for one problem."""
        merge = task.merge(candidates, problem)
        if merge.candidate is not None:
            return FusedCandidate(merge.candidate, "structural")
        proposals: list[dict[str, Any]] = [
            {
                "answer": candidate.answer,
                "answer_source": candidate.answer_source,
                "text": task.show(candidate),
            }
            for candidate in candidates
        ]
        request = ChatRequest(
            role=self.role,
            messages=critic_template(task, self.style).render(
                problem=problem.text,
                experiences=list(experiences),
                generator_id=generator_id,
                proposals=proposals,
                conflicts=merge.conflicts,
                **task.prompt_values(problem),
            ),
            sampling=self.sampling,
            json_schema=task.reply_schema,
            purpose="fusion",
        )
        [answer] = await ask(
            self._client,
            request,
            [0],
            lambda reply: read_candidate(task, problem, reply),
            task.re_ask_reason,
            form=task.reply_form,
        )
        return FusedCandidate(answer.read, "model", answer.reply, answer.re_asked)
