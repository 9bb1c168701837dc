"""Rows of visual question answering: questions with the answers of people."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from engine.datasets import load_problems
from engine.errors import InputError
from engine.records import Problem
from engine.storage.data_files import SUFFIXES, file_rows
from engine.tasks.registry import task_named

_TEXTS = ("problem", "question")
_ANSWER = ("answer", "ground_truth")


def load_items(dataset: str, max_problems: int | None = None) -> list[Problem]:
    """The problems of a dataset, as :func:`engine.datasets.load_problems` reads them, or rows of VQA.

    Rows with ``answers`` and without ``answer`` are read too: the answer that most people gave stands in prompts, the
    first of equals. A name is looked up in ``data/datasets`` and ``$SCAFFOLD_DATA``.

    Raises:
        InputError: a row is not as described; it is named.
    """
    path = _file(dataset)
    if path is None or not any(_has_only_answers(row) for row in file_rows(path)):
        return [_with_truth(problem) for problem in load_problems(dataset, max_problems=max_problems)]
    rows = enumerate(islice((row for row in file_rows(path) if row is not None), max_problems))
    return _with_own_ids((_problem(row, f"{path}, row {number}") for number, row in rows), dataset)


def _with_own_ids(problems: Iterable[Problem], dataset: str) -> list[Problem]:
    """The problems; figures are kept by id, so that an id which is there twice would hide a row."""
    by_id: dict[str, Problem] = {}
    for problem in problems:
        if by_id.setdefault(problem.id, problem) is not problem:
            raise InputError(f"{dataset}: the id {problem.id!r} is there twice", fix="Give every row an id of its own.")
    return list(by_id.values())


def _with_truth(problem: Problem) -> Problem:
    """The problem with the right answer as text, which stands in prompts; a task may keep it in a form of its own."""
    return problem.model_copy(update={"answer": task_named(problem.task).truth(problem)})


def people_of(problem: Problem) -> list[str] | None:
    """The answers of people that a row has (texts, or objects with ``answer``); None: fewer than two."""
    return _people(problem.meta.get("answers"))


def _people(raw: Any) -> list[str] | None:
    if not isinstance(raw, list) or len(raw) < 2:
        return None
    answers = [answer.get("answer") if isinstance(answer, dict) else answer for answer in raw]
    are_texts = all(isinstance(answer, str | int | float) for answer in answers)
    return [str(answer) for answer in answers] if are_texts else None


def _has_only_answers(row: Any) -> bool:
    return isinstance(row, dict) and "answers" in row and not any(row.get(name) is not None for name in _ANSWER)


def _problem(row: Any, where: str) -> Problem:
    if not isinstance(row, dict):
        raise InputError(f"{where}: expected an object")
    text = next((row[name] for name in _TEXTS if isinstance(row.get(name), str) and row[name].strip()), None)
    people = _people(row.get("answers")) or ([str(row["answer"])] if row.get("answer") is not None else None)
    if text is None or not people:
        raise InputError(f"{where}: it needs 'question' and 'answers', texts of at least two people")
    [(common, _)] = Counter(people).most_common(1)
    name = next((row[key] for key in ("id", "question_id") if row.get(key) is not None), where.rpartition(" ")[2])
    meta = {key: value for key, value in row.items() if key not in ("id", *_TEXTS, *_ANSWER)}
    return Problem(id=str(name), text=text, answer=common, meta=meta)


def _folders() -> list[Path]:
    extra = os.environ.get("SCAFFOLD_DATA")
    return [Path.cwd() / "data/datasets", *([Path(extra).expanduser()] if extra else [])]


def _file(dataset: str) -> Path | None:
    if dataset.endswith(SUFFIXES):
        path = Path(dataset).expanduser()
        return path if path.is_file() else None
    return next((path for folder in _folders() if (path := folder / f"{dataset}.jsonl").is_file()), None)
