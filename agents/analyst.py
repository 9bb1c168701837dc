"""The analyst: reads a scored group and proposes experiences for a library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from typing import Any

from agents.chat import ChatClient, ask
from agents.templates import check_prompts, role_template
from engine.experience.events import Refusal
from engine.reading.control_characters import as_one_line
from engine.reading.json_reading import read_json_object
from engine.reading.special_tokens import break_special_tokens
from engine.records import ChatRequest, Experience, Fault, Message, Operation, Outcome, Problem, Reply, Sampling
from engine.task import Task
from engine.tasks.registry import task_named

MAX_WORDS = 32
_MOST_READ = 16
_SHOWN = 8000
"""Characters of a reply that are sent back with what was refused of it."""
_AMEND = (
    "These operations of your reply were refused:\n{refused}\nThe others are used. Send one JSON object with the "
    'operations that replace the refused ones, in the same form, and nothing else; {{"operations": []}} if none does.'
)

_SCHEMA: dict[str, Any] = {
    "title": "operations",
    "type": "object",
    "properties": {
        "operations": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "op": {"type": "string", "enum": ["add"]},
                    "content": {"type": "string"},
                    "category": {"type": "string"},
                },
                "required": ["op", "content"],
            },
        }
    },
    "required": ["operations"],
}

_LEARNERS = {"generator": "that solver", "critic": "the critic that fuses"}


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
    """Additions, or a fault. After an ``infra_fault`` the step is repeated, after others it ends without change.

    ``request`` and ``text`` are what was asked and replied, for :meth:`ExperienceAnalyst.amend`.
    """

    operations: list[Operation]
    outcome: Outcome = Outcome.OK
    fault: Fault | None = None
    request: ChatRequest | None = None
    text: str = ""


@dataclass(eq=False)
class ExperienceAnalyst:
    """Extracts experiences from groups for one learner.

    Args:
        client: draws the samples.
        role: the api role: ``analyst``, or the learner's own role if no analyst is configured.
        learner: ``generator`` or ``critic``.
        max_operations: additions to ask for; further ones are marked ``surplus``, so that the library refuses them.
        max_tokens: completion tokens of a reply.
        seed: seed of the sampling.
        style: prompt style.
        tasks: the tasks whose templates are checked here, before the first request; None: all.
    """

    client: ChatClient
    role: str
    learner: str
    _: KW_ONLY
    max_operations: int = 2
    max_tokens: int | None = None
    seed: int | None = None
    style: str = "full"
    tasks: InitVar[Iterable[Task] | None] = None

    def __post_init__(self, tasks: Iterable[Task] | None) -> None:
        check_prompts(tasks, self.style)

    async def propose(
        self,
        problem: Problem,
        attempts: Sequence[Attempt],
        experiences: Sequence[Experience],
        tried: Sequence[Experience] = (),
    ) -> Proposal:
        """Ask for experiences that follow from a group.

        Args:
            problem: the problem of the group.
            attempts: the members of the group.
            experiences: the present library, or its part that is about such problems.
            tried: experiences that were measured and did not help.
        """
        task, learner = task_named(problem.task), self.learner
        attempts_are = f"The attempts are {task.attempt_descriptions[learner]}"
        request = ChatRequest(
            role=self.role,
            messages=role_template(f"{learner}_experience_extraction", task, self.style).render(
                learner=f"{attempts_are}; the lessons steer {_LEARNERS[learner]}.",
                max_words=MAX_WORDS,
                max_operations=self.max_operations,
                experiences=list(experiences),
                tried=list(tried),
                problem=problem.text,
                ground_truth=task.truth(problem),
                attempts=list(attempts),
            ),
            sampling=Sampling(temperature=0.0, max_tokens=self.max_tokens, seed=self.seed),
            json_schema=_SCHEMA,
            purpose="analysis",
        )
        [answer] = await ask(
            self.client, request, [0], self._read, lambda read: read.fault.message if read.fault else None
        )
        if answer.read is None:
            return Proposal([], Outcome.INFRA_FAULT, answer.reply.fault)
        completion = answer.reply.completion
        return replace(answer.read, request=request, text=completion.text if completion else "")

    async def amend(self, proposal: Proposal, refused: Sequence[Refusal]) -> Proposal:
        """Ask once more, with the reasons of refusals.

        Args:
            proposal: of :meth:`propose`.
            refused: what would be refused of it.

        Returns:
            the operations that were not refused, and those of the second reply in place of the others. If that holds
            none, or cannot be read, the proposal as it was.
        """
        if proposal.request is None or not refused:
            return proposal
        lines = "\n".join(
            f'- add: "{as_one_line(refusal.operation.content or "")}": {refusal.message}' for refusal in refused
        )
        messages = (
            *proposal.request.messages,
            Message(role="assistant", content=break_special_tokens(proposal.text[:_SHOWN])),
            Message(role="user", content=_AMEND.format(refused=break_special_tokens(lines))),
        )
        [reply] = await self.client.sample(proposal.request.model_copy(update={"messages": messages}), [0])
        if reply.outcome is Outcome.INFRA_FAULT:
            return Proposal([], Outcome.INFRA_FAULT, reply.fault)
        second = self._read(reply)
        replacing = [operation for operation in second.operations if operation.op != "surplus"][: len(refused)]
        if not replacing:
            return proposal
        replaced = [refusal.operation for refusal in refused]
        kept = []
        for operation in proposal.operations:
            if operation in replaced:
                replaced.remove(operation)
            else:
                kept.append(operation)
        return replace(proposal, operations=[*kept, *replacing])

    def _read(self, reply: Reply) -> Proposal:
        if reply.completion is None:
            return Proposal([], Outcome.MODEL_FAULT, reply.fault)
        text = reply.completion.text
        reading = read_json_object(text, required="operations")
        if isinstance(reading, Fault) and '"operations"' not in text:  # a list of operations, or one of them, alone
            wrapped = f'{{"operations": [{text[text.find("{") : text.rfind("}") + 1]}]}}'
            bare = read_json_object(wrapped, required="operations")
            reading = reading if isinstance(bare, Fault) or not any(map(_is_operation, bare["operations"])) else bare
        if isinstance(reading, Fault):
            return Proposal([], Outcome.MODEL_FAULT, reading)
        listed = reading["operations"]
        if not isinstance(listed, list):
            return Proposal([], Outcome.MODEL_FAULT, Fault(kind="schema", message="operations is no list"))
        operations = [_operation(item) for item in listed[:_MOST_READ]]
        surplus = [item.model_copy(update={"op": "surplus"}) for item in operations[self.max_operations :]]
        return Proposal(operations[: self.max_operations] + surplus)


def _is_operation(item: Any) -> bool:
    return isinstance(item, dict) and not {"op", "type"}.isdisjoint(item)


def _operation(item: Any) -> Operation:
    """An entry of the reply as an operation; the library refuses invalid ones and records the refusal.

    A text for the library is read as an addition, also where the model calls it a change of another experience.
    """
    if not isinstance(item, dict):
        return Operation(op="malformed", content=str(item)[:500])
    content, op = item.get("content"), str(item.get("op", item.get("type", "missing")))[:40]
    return Operation(
        op="add" if content and op != "delete" else op,
        content=None if content is None else " ".join(str(content).split("\n"))[:2000],
        category=str(item.get("category") or "")[:80],
    )
