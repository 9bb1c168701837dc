"""The seam between the rails and a kind of task. Nothing outside a task's own files asks for its name."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from engine.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.records import Candidate, Outcome, Problem

_TASKS = {"math": "engine.tasks.math:TASK", "physics": "engine.tasks.physics:TASK"}


@dataclass(frozen=True)
class Measurement:
    """What a task measured on a candidate.

    Args:
        components: reward components in [0, 1] by name; None is "could not be measured".
        is_correct: the verifier's verdict.
        outcome: ``ok``; ``verifier_timeout`` where a checker was killed on time; ``infra_fault`` where none could
            be started, so that nothing was found out.
        detail: the figures behind the components (JSON values).
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

    name: str
    answer_form: str
    """What an answer looks like, as a phrase for the prompt ("an integer")."""
    reply_schema: dict[str, Any] | None
    """JSON schema that a reply is held to where the server can; None where replies are not JSON."""

    def check_problem(self, problem: Problem) -> None:
        """Refuse a problem that could not be scored (InputError), before anything is paid for."""
        ...

    def parse(self, text: str, problem: Problem) -> Candidate:
        """Read a reply. An unreadable one is a candidate with outcome ``model_fault``."""
        ...

    def candidate_from_record(self, scaffold: Any, answer: str | None, problem: Problem) -> Candidate:
        """Read a candidate back from a line of a cache, also one that another program wrote."""
        ...

    def measure(self, candidate: Candidate, problem: Problem) -> Measurement:
        """Score a candidate."""
        ...

    def show(self, candidate: Candidate) -> str:
        """The candidate as text for another prompt (critic, analyst)."""
        ...

    def merge(self, candidates: Sequence[Candidate], problem: Problem) -> TaskMerge:
        """Join candidates without a model where they do not conflict."""
        ...


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
