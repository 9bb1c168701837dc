"""The judge: scores the reasoning of a candidate, or how much of a rubric an answer fulfils."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from engine.api_manager import JUDGE_ROLE
from engine.reading.json_reading import read_json_object
from engine.records import Candidate, ChatRequest, Fault, Outcome, Problem, Reply, Sampling
from engine.task import Task
from engine.task_protocols import JudgedByRubric
from grpo_training.agents.chat import ChatClient, ask, with_images
from grpo_training.agents.templates import role_template

_SCHEMA: dict[str, Any] = {
    "title": "opinion",
    "type": "object",
    "properties": {"score": {"type": "number"}, "reason": {"type": "string"}},
    "required": ["score"],
}
_SHOWN_REASON = 500
"""Characters of a reason that are kept."""


@dataclass(frozen=True)
class Opinion:
    """A score in [0, 1] with the judge's reason for it, or why there is none.

    The outcome is then ``judge_fault`` (its reply cannot be read) or ``infra_fault`` (no reply).
    """

    score: float | None
    outcome: Outcome = Outcome.OK
    fault: Fault | None = None
    reason: str = ""


@dataclass(eq=False)
class Judge:
    """Asks for opinions. Those on reasoning are part of ``r_logic``, those by a rubric are ``r_rubric``.

    Args:
        client: asks.
        role: whose endpoint is asked.
        max_tokens: of a reply.
        style: prompt style.
    """

    client: ChatClient
    role: str = JUDGE_ROLE
    _: KW_ONLY
    max_tokens: int | None = None
    style: str = "full"

    async def opinion(self, task: Task, problem: Problem, candidate: Candidate) -> Opinion:
        """Ask for an opinion on the reasoning of a candidate."""
        return await self._ask("judge", task, problem, scaffold=task.show(candidate))

    async def opinion_by_rubric(self, task: Task, problem: Problem, rubric: str, answer: str) -> Opinion:
        """Ask how much of a rubric an answer fulfils."""
        return await self._ask("rubric_judge", task, problem, rubric=rubric, answer=answer)

    async def _ask(self, prompt: str, task: Task, problem: Problem, **values: str) -> Opinion:
        request = ChatRequest(
            role=self.role,
            messages=role_template(prompt, task, self.style).render(problem=problem.text, **values),
            sampling=Sampling(temperature=0.0, max_tokens=self.max_tokens),
            json_schema=_SCHEMA,
            purpose="judge",
        )
        request = await with_images(request, task, problem)
        [answer] = await ask(self.client, request, [0], _read, lambda read: read.fault.message if read.fault else None)
        if answer.read is None:
            return Opinion(None, Outcome.INFRA_FAULT, answer.reply.fault)
        return answer.read


async def judged_by_rubric(judge: Judge, task: Task, problem: Problem, candidate: Candidate) -> Opinion | None:
    """The opinion on an answer to a problem that has a rubric; None if it has none, or there is no answer to judge."""
    rubric = task.rubric(problem) if isinstance(task, JudgedByRubric) else None
    if rubric is None or candidate.stated_answer is None:
        return None
    return await judge.opinion_by_rubric(task, problem, rubric, candidate.stated_answer)


def _read(reply: Reply) -> Opinion:
    if reply.completion is None:
        return Opinion(None, Outcome.JUDGE_FAULT, reply.fault)
    reading = read_json_object(reply.completion.text, required="score")
    if isinstance(reading, Fault):
        return Opinion(None, Outcome.JUDGE_FAULT, reading)
    score, reason = reading["score"], reading.get("reason")
    if type(score) not in (int, float) or not 0 <= score <= 1:
        message = f"score {score!r} is no number from 0 to 1"
        return Opinion(None, Outcome.JUDGE_FAULT, Fault(kind="schema", message=message))
    return Opinion(score, reason=reason[:_SHOWN_REASON] if isinstance(reason, str) else "")
