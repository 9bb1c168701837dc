"""The tasks by name: those of the project, of installed packages, and of a user's files."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from engine.errors import InputError
from engine.reading.plugins import load_object
from engine.records import Problem
from engine.task import Task
from engine.tasks import code

ENTRY_POINT_GROUP = "scaffold_grpo.tasks"
"""Installed packages declare tasks in this group of entry points, by name."""

DEFAULT_TASK = "math"
"""The task of problems and records that name none: files of the first format have no ``task`` key."""

_OF_ANY_ANSWER = "answers"
"""The task of rows of a user's file that name none, unless their answers are formulas."""

_TASKS = ("math", "physics", "answers", "code", "traffic", "phaser")
"""Tasks of the project. Each is ``TASK`` in ``engine.tasks.NAME.task``, which is imported when the task is used.

The packages declare ``DATASET_NAMES`` and ``ROW_FIELDS``, so that the task of a dataset is found without the others.
"""

_registered: dict[str, Task] = {}


def task_of_own_data(*, is_mathematics: bool) -> Task:
    """The task of rows of a user's file that name none, and whose fields no task claims.

    Args:
        is_mathematics: whether their answers are formulas, so that causal scaffolds can be made.
    """
    return task_named(DEFAULT_TASK if is_mathematics else _OF_ANY_ANSWER)


def known_tasks() -> Iterator[Task]:
    """The tasks of the project, each imported when it is reached, and those that :func:`load_task` has loaded."""
    yield from map(task_named, _TASKS)
    yield from list(_registered.values())


def dataset_names() -> list[str]:
    """The names of all tasks' datasets."""
    of_project = [name for task in _TASKS for name in _declared(task, "DATASET_NAMES")]
    return of_project + [name for task in _registered.values() for name in task.dataset_names]


def task_with_dataset(name: str) -> Task | None:
    """The task that has a dataset, given as ``NAME``, ``NAME:PART`` or ``NAME?key=value``; None if there is none."""
    base = re.split("[:?]", name, maxsplit=1)[0]
    of_project = next((task for task in _TASKS if base in _declared(task, "DATASET_NAMES")), None)
    if of_project is not None:
        return task_named(of_project)
    return next((task for task in _registered.values() if base in task.dataset_names), None)


def task_of_row(row: Mapping[str, Any]) -> Task | None:
    """The task of a row that names none, by the row's fields; None if they are not those of any task."""
    filled = {name for name, value in row.items() if value is not None}
    of_project = next((task for task in _TASKS if not filled.isdisjoint(_declared(task, "ROW_FIELDS"))), None)
    if of_project is None and code.claims(row):
        of_project = "code"
    if of_project is not None:
        return task_named(of_project)
    return next((task for task in _registered.values() if not filled.isdisjoint(task.row_fields)), None)


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
        task: Task = _module(f"{name}.task").TASK
        return task
    if reference := _of_packages().get(name):
        return _register(load_object(reference), reference)
    near = difflib.get_close_matches(name, [*_TASKS, *_registered], 1)
    meant = f"Did you mean {near[0]!r}? " if near else ""
    raise InputError(
        f"Unknown task {name!r}",
        why=f"Known tasks: {', '.join([*_TASKS, *_registered])}.",
        fix=f"{meant}Give a task of your own with --task path/to/file.py:TASK.",
    )


def load_task(reference: str) -> Task:
    """The task with a name, or at ``path/to/file.py:NAME`` or ``package.module:NAME``; its name is known from then on.

    Raises:
        MissingInputError: there is no such file.
        InputError: there is no such task, or another task has its name.
    """
    return _register(load_object(reference), reference) if ":" in reference else task_named(reference)


def check_verifiers(problems: Iterable[Problem]) -> None:
    """Check that the tasks of problems can verify replies on this machine, before a model is asked.

    Raises:
        ConfigurationError: a tool that a task needs is missing; with the fix.
    """
    for name in sorted({problem.task for problem in problems}):
        task_named(name).verifier()


@functools.cache  # asked for each row of a dataset
def _declared(task: str, attribute: str) -> Sequence[str]:
    """What the package of a task of the project declares."""
    names: Sequence[str] = getattr(_module(task), attribute, ())
    return names


@functools.cache  # asked for each row of a dataset whose field ``task`` is a text
def _of_packages() -> Mapping[str, str]:
    """Where the tasks of installed packages are, by name."""
    return {entry.name: entry.value for entry in entry_points(group=ENTRY_POINT_GROUP)}


def task_of_function(reward: Callable[..., Any]) -> Task:
    """The task of a reward function or of a program, whose name is known from then on; a problem is a row's question.

    It takes the place of an earlier function with its name, as the function of a notebook is defined again.

    Args:
        reward: see :data:`engine.tasks.simple.reward.Reward`; or a program, see :mod:`engine.tasks.program`.
    """
    known = _registered.get(reward.__name__)
    function = getattr(known, "function", None)
    if known is not None and function is reward:
        return known
    if function is not None:
        del _registered[reward.__name__]
    kind = "simple" if _module("program.declaration").prompts_of(reward) is None else "program"
    return _register(_module(f"{kind}.task").task_of(reward), reward.__name__)


def function_named(name: str) -> Callable[..., Any] | None:
    """The function that a known task was made of; None if there is no such task."""
    function: Callable[..., Any] | None = getattr(_registered.get(name), "function", None)
    return function


def _module(name: str) -> Any:
    """A module of a task, which may import this one."""
    return importlib.import_module(f"engine.tasks.{name}")


def _register(task: object, source: str) -> Task:
    if inspect.isfunction(task):
        return task_of_function(task)
    if isinstance(task, type):
        name = source.rpartition(":")[2]
        raise InputError(
            f"{source} is a class", fix=f"Add a line such as TASK = {name}() to its file, and give that name: :TASK."
        )
    if not isinstance(task, Task):
        raise InputError(
            f"{source} is not a task but a {type(task).__name__}",
            fix="Give an instance of engine.task.Task, or a reward function.",
        )
    if task.name in _TASKS or _registered.get(task.name, task) is not task:
        raise InputError(f"{source}: another task has the name {task.name!r}", fix="Give the task a name of its own.")
    _registered[task.name] = task
    return task
