"""The analyst: a scored group in, proposed library operations out. It proposes; code disposes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents.chat import ask
from engine.reading.json_reading import read_json_object
from engine.records import ChatRequest, Experience, Fault, Operation, Outcome, Problem, Reply, Sampling
from engine.task import known_tasks, task_named
from prompts import PromptTemplate, task_template

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents.chat import ChatClient
    from engine.task import Task

MAX_WORDS = 32
_MOST_READ = 16

_SCHEMA: dict[str, Any] = {
    "title": "operations",
    "type": "object",
    "properties": {
        "operations": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "op": {"type": "string", "enum": ["add", "modify", "delete"]},
                    "id": {"type": "string"},
                    "content": {"type": "string"},
                    "category": {"type": "string"},
                },
                "required": ["op"],
            },
        }
    },
    "required": ["operations"],
}

_LEARNERS = {"generator": "that solver", "critic": "the critic that fuses"}
_VARIABLES = frozenset({"learner", "max_words", "max_operations", "experiences", "problem", "ground_truth", "attempts"})


def analyst_template(task: Task, style: str = "full") -> PromptTemplate:
    """A task's prompt for lessons, checked."""
    return task_template("analyst", task.prompts, _VARIABLES, style)


@dataclass(frozen=True)
class Attempt:
    """One scored member of the group, as the analyst sees it."""

    text: str
    answer: str | None
    is_correct: bool
    r_total: float
    remarks: str = ""


@dataclass(frozen=True)
class Proposal:
    """Operations, or the fault in their place: ``infra_fault`` leaves the lesson open, others end it."""

    operations: list[Operation]
    outcome: Outcome = Outcome.OK
    fault: Fault | None = None


class ExperienceAnalyst:
    """Distils groups for one learner.

    Args:
        client: draws the samples.
        role: the api role that is asked: ``analyst``, or the learner's own where that is not configured.
        learner: ``generator`` or ``critic``.
        max_operations: operations asked for; what goes beyond is named ``surplus``, so the library refuses it.
        style: prompt style; the prompts of all tasks are checked here.
    """

    def __init__(
        self,
        client: ChatClient,
        role: str,
        learner: str,
        *,
        max_operations: int = 2,
        max_tokens: int | None = None,
        seed: int | None = None,
        style: str = "full",
    ) -> None:
        self._client = client
        self._role = role
        self._learner = learner
        self._max_operations = max_operations
        self._sampling = Sampling(temperature=0.0, max_tokens=max_tokens, seed=seed)
        self._style = style
        for task in known_tasks():
            analyst_template(task, style)

    async def propose(
        self, problem: Problem, attempts: Sequence[Attempt], experiences: Sequence[Experience]
    ) -> Proposal:
        """Ask what the group teaches, given the library as it stands."""
        task, learner = task_named(problem.task), self._learner
        request = ChatRequest(
            role=self._role,
            messages=analyst_template(task, self._style).render(
                learner=f"The attempts are {task.attempts[learner]}; the lessons steer {_LEARNERS[learner]}.",
                max_words=MAX_WORDS,
                max_operations=self._max_operations,
                experiences=list(experiences),
                problem=problem.text,
                ground_truth=task.truth(problem),
                attempts=list(attempts),
            ),
            sampling=self._sampling,
            json_schema=_SCHEMA,
            purpose="analysis",
        )
        [answer] = await ask(self._client, request, [0], self._read, _unreadable)
        if answer.read is None:
            return Proposal([], Outcome.INFRA_FAULT, answer.reply.fault)
        return answer.read

    def _read(self, reply: Reply) -> Proposal:
        if reply.completion is None:
            return Proposal([], Outcome.MODEL_FAULT, reply.fault)
        reading = read_json_object(reply.completion.text, required="operations")
        if reading.value is None:
            return Proposal([], Outcome.MODEL_FAULT, reading.fault)
        listed = reading.value["operations"]
        if not isinstance(listed, list):
            return Proposal([], Outcome.MODEL_FAULT, Fault(kind="schema", message="operations is no list"))
        operations = [_operation(item) for item in listed[:_MOST_READ]]
        surplus = [item.model_copy(update={"op": "surplus"}) for item in operations[self._max_operations :]]
        return Proposal(operations[: self._max_operations] + surplus)


def _operation(item: Any) -> Operation:
    """Whatever the model wrote, as an operation; what makes no sense is refused by the library, visibly."""
    if not isinstance(item, dict):
        return Operation(op="malformed", content=str(item)[:500])
    content, target = item.get("content"), item.get("id")
    return Operation(
        op=str(item.get("op", "missing"))[:40],
        id=None if target is None else str(target)[:40],
        content=None if content is None else str(content)[:2000],
        category=str(item.get("category") or "")[:80],
    )


def _unreadable(proposal: Proposal) -> str | None:
    return proposal.fault.message if proposal.outcome is Outcome.MODEL_FAULT and proposal.fault else None
