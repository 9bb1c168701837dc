"""Verifies replies where the executor says: in this process, in child processes, or on a cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.abilities import HasCheckOptions
from engine.errors import ConfigurationError
from engine.records import Completion, Problem
from engine.task import Task
from engine.tasks.registry import load_task
from grpo_training.score_rollouts.verdicts import StoredVerdict, verify


class VerifyItem(NamedTuple):
    """A reply to verify."""

    problem: Problem
    completion: Completion


@dataclass(frozen=True)
class Verified:
    """A verdict, and the seconds that it took."""

    verdict: StoredVerdict
    seconds: float


@dataclass(frozen=True)
class VerifierDescription:
    """Describes a worker that verifies replies of one task.

    Args:
        place: where it finds the task: its name, ``FILE.py:NAME`` or ``MODULE:NAME``.
        options: the task's options, as values: their class may be of a user's file.
        verifier: what the task's ``verifier`` names where the command runs.
    """

    place: str
    options: Mapping[str, Any] | None
    verifier: Mapping[str, Any]

    @classmethod
    def of(cls, task: Task, place: str) -> VerifierDescription:
        """The description of a task with its options."""
        options = task.check_options if isinstance(task, HasCheckOptions) else None
        return cls(place, None if options is None else options.model_dump(), dict(task.verifier()))

    def open(self, number: int) -> Verifier:
        """Load the task.

        Raises:
            ConfigurationError: verdicts here would not be those of the machine on which the command runs.
        """
        task = load_task(self.place)
        if isinstance(task, HasCheckOptions):
            task = task.with_check_options(type(task.check_options).model_validate(self.options))
        here = dict(task.verifier())
        if here != self.verifier:
            raise ConfigurationError(
                f"The task {task.name} would verify differently",
                why=f"Here its verifier is {here}, where the command runs it is {self.verifier}.",
                fix="Install the same versions on all nodes.",
            )
        return Verifier(task)


class Verifier:
    """Verifies replies of one task."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def run(self, item: VerifyItem) -> Verified:
        """Verify a reply."""
        start = time.monotonic()
        verdict = verify(self._task, item.problem, item.completion)
        return Verified(verdict, time.monotonic() - start)

    def close(self) -> None:
        """Nothing is open; a task's own pools end with the process."""
