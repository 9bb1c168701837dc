"""Rows of visual question answering: questions with the answers of people."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

from engine.datasets import load_problems
from engine.errors import InputError
from engine.records import Problem
from engine.storage.data_files import SUFFIXES, file_rows
from engine.storage.data_folders import data_file, data_folders
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
    path: Path | None = Path(dataset).expanduser()
    if not dataset.endswith(SUFFIXES):
        path = data_file([f"{dataset}.jsonl"], data_folders())
    if path is None or not path.is_file() or not any(map(_has_only_answers, file_rows(path))):
        return [  # with the right answer as text, which stands in prompts; a task may keep it in a form of its own
            problem.model_copy(update={"answer": task_named(problem.task).truth(problem)})
            for problem in load_problems(dataset, max_problems=max_problems)
        ]
    problems: dict[str, Problem] = {}
    for number, row in enumerate(islice((row for row in file_rows(path) if row is not None), max_problems)):
        problem = _problem(row, f"{path}, row {number}")
        if problem.id in problems:  # figures are kept by id, so that one of the two rows would be hidden
            raise InputError(f"{dataset}: the id {problem.id!r} is there twice", fix="Give every row an id of its own.")
        problems[problem.id] = problem
    return list(problems.values())


def people_of(problem: Problem) -> list[str] | None:
    """The answers of people that a row has (texts, or objects with ``answer``); None: fewer than two."""
    raw = problem.meta.get("answers")
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
    name = next((row[key] for key in ("id", "question_id") if row.get(key) is not None), where.rpartition(" ")[2])
    meta = {key: value for key, value in row.items() if key not in ("id", *_TEXTS, *_ANSWER)}
    problem = Problem(id=str(name), text=text or "", answer="", meta=meta)
    people = people_of(problem) or ([str(row["answer"])] if row.get("answer") is not None else None)
    if text is None or not people:
        raise InputError(f"{where}: it needs 'question' and 'answers', texts of at least two people")
    [(common, _)] = Counter(people).most_common(1)
    return problem.model_copy(update={"answer": common})
