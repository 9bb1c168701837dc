"""The seam between the rails and a kind of task. Nothing outside a task's own files asks for its name."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from engine.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.records import Candidate, Outcome, Problem

JSON_OBJECT = "one JSON object in the format that was asked for"
"""What a reply is where it is JSON, as a phrase for the re-ask."""

_TASKS = {
    "math": "engine.tasks.math.task:TASK",
    "physics": "engine.tasks.physics.task:TASK",
    "code": "engine.tasks.code.task:TASK",
}


@dataclass(frozen=True)
class Measurement:
    """What a task measured on a candidate.

    Args:
        components: reward components in [0, 1] by name; None is "could not be measured".
        is_correct: the verifier's verdict.
        outcome: ``ok``; ``verifier_timeout`` where a checker was killed on time; ``infra_fault`` where none could
            be started, so that nothing was found out.
        detail: the figures behind the components (JSON values); ``remarks``, a list of texts, is what the analyst
            is told beside the attempt.
    """

    components: dict[str, float | None]
    is_correct: bool | None
    outcome: Outcome
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskMerge:
    """Candidates joined without a model: the joined candidate, or the conflicts that stand in the way."""

    candidate: Candidate | None
    conflicts: list[str]


class Task(Protocol):
    """A kind of task. Implementations have no state and work from any thread.

    Model output reaches a task as text; whatever it holds, no method raises for it, and each ends in bounded
    time and memory.
    """

    @property
    def name(self) -> str:
        """The name in datasets and records."""
        ...

    @property
    def prompts(self) -> str:
        """Whose templates it is asked with: empty for ``generator_system.j2``, ``x`` for ``x_generator_system.j2``."""
        ...

    @property
    def prompt_variables(self) -> frozenset[str]:
        """What those templates take of the task, beside what the rails give to each (problem, experiences ...)."""
        ...

    @property
    def attempts(self) -> Mapping[str, str]:
        """What a ``generator``'s and the ``critic``'s attempts are, as phrases for the analyst."""
        ...

    @property
    def reply_form(self) -> str:
        """What a reply is, as a phrase for the re-ask."""
        ...

    @property
    def reply_schema(self) -> dict[str, Any] | None:
        """JSON schema that a reply is held to where the server can; None where replies are not JSON."""
        ...

    def check_problem(self, problem: Problem) -> None:
        """Refuse a problem that could not be scored (InputError), before anything is paid for."""
        ...

    def prompt_values(self, problem: Problem) -> dict[str, Any]:
        """The values of ``prompt_variables`` for a problem."""
        ...

    def truth(self, problem: Problem) -> str:
        """What a right answer is, as text for the analyst."""
        ...

    def parse(self, text: str, problem: Problem, reasoning: str | None = None) -> Candidate:
        """Read a reply, and what the endpoint gave as its reasoning.

        An unreadable one is a candidate with outcome ``model_fault``.
        """
        ...

    def re_ask_reason(self, candidate: Candidate) -> str | None:
        """Why the model should send a reply again that could not be read; None where that would not help."""
        ...

    def to_record(self, candidate: Candidate) -> str | None:
        """The candidate as the ``scaffold`` text of a cache line; None where nothing could be read."""
        ...

    def candidate_from_record(self, scaffold: Any, answer: str | None, problem: Problem) -> Candidate:
        """Read a candidate back from a line of a cache, also one that another program wrote."""
        ...

    def measure(self, candidate: Candidate, problem: Problem) -> Measurement:
        """Score a candidate."""
        ...

    def wants_opinion(self, candidate: Candidate) -> bool:
        """Whether a judge's opinion, where one is configured, joins ``r_logic``; not where execution decides."""
        ...

    def show(self, candidate: Candidate) -> str:
        """The candidate as text for another prompt (critic, analyst)."""
        ...

    def merge(self, candidates: Sequence[Candidate], problem: Problem) -> TaskMerge:
        """Join candidates without a model where they do not conflict."""
        ...


def known_tasks() -> list[Task]:
    """Every kind of task."""
    return [task_named(name) for name in _TASKS]


def task_named(name: str) -> Task:
    """The task of that name.

    Raises:
        InputError: there is none.
    """
    if name not in _TASKS:
        raise InputError(f"Unknown task {name!r}", fix=f"Known tasks: {', '.join(_TASKS)}.")
    module, _, attribute = _TASKS[name].partition(":")
    task: Task = getattr(importlib.import_module(module), attribute)
    return task
