"""Prompts of other programs for online training: ``grpo_dataset.json`` files, each prompt as it stands.

A row has ``prompt`` (text, or chat messages) and any other columns, which the reward function gets. Rows that a task
knows, such as those of the task ``traffic``, and rows with a text and an answer are problems instead (see
:mod:`engine.datasets`), whose prompts this project renders. Where a function pays, rows that their task could not score
are prompts too.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.own_datasets import FOLDER_FILE
from engine.records import Message, Problem
from engine.task import Task
from engine.tasks.registry import task_named, task_of_row
from engine.tasks.rows import ANSWER_FIELDS
from grpo_training.train.data.scored_files import placed_rows, prompt_messages

Prompts = dict[str, tuple[Message, ...]]
"""The prompt of each problem, by its id."""


def load_prompts(
    source: str, scored_by: Task[Any] | None, *, by_function: bool = False, max_problems: int | None = None
) -> tuple[list[Problem], Prompts] | None:
    """The rows of a file or folder as problems, with their prompts; None if they are problems of a task.

    Args:
        source: a file, or a folder with a ``grpo_dataset.json``, or with folders that have one.
        scored_by: the task whose reward is paid, which reads the rows; None where a function scores them.
        by_function: whether a function alone scores the rows, which then need a prompt only.
        max_problems: stop after this many rows; None for all.

    Raises:
        InputError: a row that is no prompt, or whose id another row has; names file and line.
    """
    problems: list[Problem] = []
    prompts: Prompts = {}
    files = _files(Path(source).expanduser())
    placed = (pair for _, path in files for pair in placed_rows(path))
    asked = placed if by_function else itertools.islice(placed, 1)
    if not any(_is_prompt(row, where, by_function) for where, row in asked):
        return None
    for name, path in files:
        for number, (where, row) in enumerate(placed_rows(path), start=1):
            messages = prompt_messages(row, where)
            given = row.get("id", row.get("problem_id"))
            problem_id = f"{name}{number if given is None else given}"
            if problem_id in prompts:
                raise InputError(f"{where}: another row has the id {problem_id!r}", fix="Give each row its own id.")
            problems.append(_problem(problem_id, row, messages, where, scored_by))
            prompts[problem_id] = messages
            if len(problems) == max_problems:
                return problems, prompts
    return (problems, prompts) if problems else None


def _files(path: Path) -> Sequence[tuple[str, Path]]:
    """The files of a path, each with the prefix of its ids: the name of its folder where there are several."""
    if path.is_file():
        return [("", path)]
    if (path / FOLDER_FILE).is_file():
        return [("", path / FOLDER_FILE)]
    return [(f"{file.parent.name}:", file) for file in sorted(path.glob(f"*/{FOLDER_FILE}"))]


def _is_prompt(row: Mapping[str, Any], where: str, by_function: bool) -> bool:
    """Whether a row is a prompt to use as it stands, and no problem of a task."""
    prompt = row.get("prompt")
    if row.get("task") is not None or task_of_row(row) is not None:
        return by_function and isinstance(prompt, str | list) and not _is_problem(row, where)
    has_answer = any(row.get(name) is not None for name in ANSWER_FIELDS)
    return isinstance(prompt, list) or (isinstance(prompt, str) and not has_answer)


def _is_problem(row: Mapping[str, Any], where: str) -> bool:
    """Whether the task that a row names, or whose fields it has, can score it."""
    try:
        task = task_of_row(row) if row.get("task") is None else task_named(str(row["task"]))
        return task is not None and task.problem_from_row(row, where) is not None
    except InputError:
        return False


def _problem(
    problem_id: str, row: Mapping[str, Any], messages: Sequence[Message], where: str, scored_by: Task[Any] | None
) -> Problem:
    text = next((message.content for message in reversed(messages) if message.role == "user"), messages[-1].content)
    if scored_by is None:
        answer = next((str(row[name]) for name in ANSWER_FIELDS if row.get(name) is not None), "")
        return Problem(id=problem_id, text=text, answer=answer, meta=dict(row))
    problem = scored_by.problem_from_row({**row, "prompt": text}, where)
    return problem.model_copy(update={"id": problem_id})
