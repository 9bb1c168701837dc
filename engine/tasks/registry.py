"""The tasks by name: those of the project, of installed packages, and of a user's files."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points

from engine.errors import InputError
from engine.reading.plugins import load_object
from engine.records import Problem
from engine.task import Task

ENTRY_POINT_GROUP = "scaffold_grpo.tasks"
"""Installed packages declare tasks in this group of entry points, by name."""

DEFAULT_TASK = "math"
"""The task of problems and records that name none: files of the first format have no ``task`` key."""

_TASKS = {
    "math": "engine.tasks.math.task:TASK",
    "physics": "engine.tasks.physics.task:TASK",
    "code": "engine.tasks.code.task:TASK",
    "traffic": "engine.tasks.traffic.task:TASK",
    "phaser": "engine.tasks.phaser.task:TASK",
    "reasoning_gym": "engine.tasks.reasoning_gym.task:TASK",
    "verifiers_env": "engine.tasks.verifiers_env.task:TASK",
}

_registered: dict[str, Task] = {}


def known_tasks() -> Iterator[Task]:
    """The tasks of the project, each imported when it is reached, and those that :func:`load_task` has loaded."""
    yield from map(task_named, _TASKS)
    yield from list(_registered.values())


def task_named(name: str) -> Task:
    """The task with a name: a task of the project, a loaded one, or one of an installed package.

    Args:
        name: the name; empty for the default task.

    Raises:
        InputError: there is no such task.
    """
    name = name or DEFAULT_TASK
    if name in _registered:
        return _registered[name]
    if name in _TASKS:
        module, _, attribute = _TASKS[name].partition(":")
        task: Task = getattr(importlib.import_module(module), attribute)
        return task
    found = next(iter(entry_points(group=ENTRY_POINT_GROUP, name=name)), None)
    if found is not None:
        return _register(load_object(found.value), found.value)
    raise InputError(
        f"Unknown task {name!r}",
        why=f"Known tasks: {', '.join([*_TASKS, *_registered])}.",
        fix="Give a task of your own with --task path/to/file.py:TASK.",
    )


def load_task(place: str) -> Task:
    """The task with a name, or at ``path/to/file.py:NAME`` or ``package.module:NAME``; its name is known from then on.

    Raises:
        MissingInputError: there is no such file.
        InputError: there is no such task, or another task has its name.
    """
    return _register(load_object(place), place) if ":" in place else task_named(place)


def check_verifiers(problems: Iterable[Problem]) -> None:
    """Check that the tasks of problems can verify replies on this machine, before a model is asked.

    Raises:
        ConfigurationError: a tool that a task needs is missing; with the fix.
    """
    for name in sorted({problem.task for problem in problems}):
        task_named(name).verifier()


def _register(task: object, place: str) -> Task:
    if not isinstance(task, Task):
        raise InputError(
            f"{place} is not a task but a {type(task).__name__}", fix="Give an instance of engine.task.Task."
        )
    if task.name in _TASKS or _registered.get(task.name, task) is not task:
        raise InputError(f"{place}: another task has the name {task.name!r}", fix="Give the task a name of its own.")
    _registered[task.name] = task
    return task
