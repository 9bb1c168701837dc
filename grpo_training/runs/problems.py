"""The problems that a command names: dataset, task, fields."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from engine.dataset_rows import LoadedDataset
from engine.datasets import load_dataset
from engine.errors import InputError, first_line, quoted
from engine.experience.choice import PromptExperiences, experiences_for
from engine.reading.plugins import with_modules_beside
from engine.records import Message, Problem
from engine.task_protocols import RemarksOnProblems, TakesSchema
from engine.tasks.registry import check_verifiers, function_named, load_task, task_named
from engine.tasks.rows import read_field_map
from grpo_training.agents.generator import generator_messages


class ProblemSettings(Protocol):
    """The settings that name problems."""

    dataset: str
    fields: str | None
    columns: str | None
    compare: str | None
    json_schema: Path | None
    task: str | None
    max_problems: int | None


def read_problems(settings: ProblemSettings) -> LoadedDataset:
    """The problems, whose tasks can be scored on this machine; with a note on rows that name no task.

    Raises:
        InputError: the dataset or the JSON schema cannot be read, or replies to a problem have no schema of the user.
        ConfigurationError: a tool that a task needs is missing.
    """
    loaded = load_dataset(
        settings.dataset,
        max_problems=settings.max_problems,
        task=None if settings.task is None else load_task(settings.task),
        fields=read_field_map(settings.fields) if settings.fields else None,
        columns=[name.strip() for name in settings.columns.split(",")] if settings.columns else None,
        compare_as=settings.compare,
        reads_images=True,
    )
    check_verifiers(loaded.problems)
    if settings.json_schema is None:
        return loaded
    schema = read_schema(settings.json_schema)
    return replace(loaded, problems=[_with_schema(problem, schema) for problem in loaded.problems])


def _with_schema(problem: Problem, schema: Mapping[str, Any]) -> Problem:
    task = task_named(problem.task)
    if not isinstance(task, TakesSchema):
        raise InputError(
            f"--json-schema is for questions and answers, and {problem.id} is of the task {task.name}",
            why="Other tasks have replies of a form of their own.",
            fix="Leave it out, or pass --task answers if the rows are questions with answers.",
        )
    return task.with_schema(problem, schema)


def read_schema(path: Path) -> dict[str, Any]:
    """The JSON schema in a file. Servers check it closer.

    Raises:
        InputError: it cannot be read, or is no schema of an object.
    """
    try:
        schema = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"--json-schema: cannot read {path} as JSON", why=first_line(error)) from None
    fields = schema if isinstance(schema, dict) else {}
    parts, required = fields.get("properties", {}), fields.get("required", [])
    is_object = fields.get("type", "object") == "object" and fields.keys() & {"type", "properties", "$ref", "anyOf"}
    are_parts = isinstance(parts, dict) and all(isinstance(subschema, dict | bool) for subschema in parts.values())
    if not is_object or not are_parts or not isinstance(required, list):
        raise InputError(
            f"--json-schema: {path} is no JSON schema of an object",
            why=f"It is {quoted(schema)}.",
            fix='Write for example {"type": "object", "properties": {"answer": {"type": "string"}}}.',
        )
    return fields


def remarks_on(problems: Iterable[Problem]) -> list[str]:
    """What the tasks of the problems have to say about them before anything is paid for, in sentences."""
    by_task: dict[str, dict[str, Problem]] = {}
    for problem in problems:
        by_task.setdefault(problem.task, {})[problem.id] = problem
    remarks: list[str] = []
    for name, of_task in by_task.items():
        task = task_named(name)
        if isinstance(task, RemarksOnProblems):
            remarks += task.remarks(list(of_task.values()))
    return remarks


def prompt_of(problem: Problem, experiences: PromptExperiences, style: str) -> tuple[Message, ...]:
    """The prompt of a problem, with those experiences that are given or that a library chooses."""
    return generator_messages(task_named(problem.task), problem, experiences_for(problem, experiences), style)


def task_facts(task: str | None) -> dict[str, str]:
    """The digest of a user's task file and its modules, or of a function: a changed one makes another run."""
    file = Path((task or "").rpartition(":")[0])
    function = function_named(task or "")
    if function is not None:
        return {"task_file": hashlib.sha256(_source(function)).hexdigest()[:12]}
    if file.suffix != ".py":
        return {}
    content = b"".join(module.read_bytes() for module in with_modules_beside(file))
    return {"task_file": hashlib.sha256(content).hexdigest()[:12]}


def _source(function: Callable[..., object]) -> bytes:
    try:
        return inspect.getsource(function).encode()
    except (OSError, TypeError):  # it was made by exec, or is no function of Python
        return bytes(getattr(getattr(function, "__code__", None), "co_code", b""))


def without_duplicates(problems: Sequence[Problem], taken: Sequence[Problem] = ()) -> list[Problem]:
    """The problems whose text does not occur before, among themselves or in ``taken``."""
    known = {problem.text for problem in taken}
    first = {problem.text: problem for problem in reversed(problems) if problem.text not in known}
    return [problem for problem in problems if first.get(problem.text) is problem]
