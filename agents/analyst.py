"""The analyst: reads a scored group and proposes changes to an experience library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agents.chat import ChatClient, ask
from agents.templates import check_prompts, role_template
from engine.reading.json_reading import read_json_object
from engine.records import ChatRequest, Experience, Fault, Operation, Outcome, Problem, Reply, Sampling
from engine.task import Task
from engine.tasks.registry import known_tasks, task_named
from prompts import PromptTemplate

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


def analyst_template(task: Task, learner: str, style: str = "full") -> PromptTemplate:
    """The prompt that extracts experiences for a ``generator`` or the ``critic``."""
    return role_template(f"{learner}_experience_extraction", task, style)


@dataclass(frozen=True)
class Attempt:
    """A rollout or fusion as the analyst sees it."""

    text: str
    answer: str | None
    is_correct: bool
    r_total: float
    remarks: str = ""


@dataclass(frozen=True)
class Proposal:
    """Operations, or a fault. After an ``infra_fault`` the step is repeated, after others it ends without change."""

    operations: list[Operation]
    outcome: Outcome = Outcome.OK
    fault: Fault | None = None


class ExperienceAnalyst:
    """Extracts experiences from groups for one learner.

    Args:
        client: draws the samples.
        role: the api role: ``analyst``, or the learner's own role if no analyst is configured.
        learner: ``generator`` or ``critic``.
        max_operations: operations to ask for; further ones are marked ``surplus``, so that the library refuses them.
        max_tokens: completion tokens of a reply.
        seed: seed of the sampling.
        style: prompt style.
        tasks: the tasks whose templates are checked here, before the first request; None: all.
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
        tasks: Iterable[Task] | None = None,
    ) -> None:
        self._client = client
        self._role = role
        self._learner = learner
        self._max_operations = max_operations
        self._sampling = Sampling(temperature=0.0, max_tokens=max_tokens, seed=seed)
        self._style = style
        check_prompts(known_tasks() if tasks is None else tasks, style)

    async def propose(
        self,
        problem: Problem,
        attempts: Sequence[Attempt],
        experiences: Sequence[Experience],
        tried: Sequence[Experience] = (),
    ) -> Proposal:
        """Ask for changes to the library that follow from a group.

        Args:
            problem: the problem of the group.
            attempts: the members of the group.
            experiences: the present library, or its part that is about such problems.
            tried: experiences that were measured and did not help.
        """
        task, learner = task_named(problem.task), self._learner
        attempts_are = f"The attempts are {task.attempt_descriptions[learner]}"
        request = ChatRequest(
            role=self._role,
            messages=analyst_template(task, learner, self._style).render(
                learner=f"{attempts_are}; the lessons steer {_LEARNERS[learner]}.",
                max_words=MAX_WORDS,
                max_operations=self._max_operations,
                experiences=list(experiences),
                tried=list(tried),
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
    """An entry of the reply as an operation; the library refuses invalid ones and records the refusal."""
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
