"""Reading the usual fields of a dataset row; shared by tasks whose problems are a text and a short answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import InputError
from engine.records import Problem

TEXT_FIELDS = ("problem", "question", "prompt", "text")
ANSWER_FIELDS = ("answer", "ground_truth")
NEEDED_FIELDS = 'Each row is a JSON object with "problem" and "answer" (and optionally "id" and "task").'


def problem_with_answer(row: Mapping[str, Any], where: str, task: str) -> Problem:
    """The problem of a row with a text and an answer. Other fields go to ``meta``.

    Args:
        row: ``problem`` (or ``question``, ``prompt``, ``text``), ``answer`` (or ``ground_truth``), optionally ``id``.
        where: the place of the row, for error messages.
        task: name of the task.

    Raises:
        InputError: a field is missing, empty, or neither text nor number.
    """
    text_field, answer_field = field_of(row, TEXT_FIELDS, where), field_of(row, ANSWER_FIELDS, where)
    return Problem(
        id=text_of(row, "id", where) if row.get("id") is not None else "",
        text=text_of(row, text_field, where),
        answer=text_of(row, answer_field, where),
        task=task,
        meta={key: row[key] for key in row if key not in ("id", "task", text_field, answer_field)},
    )


def field_of(row: Mapping[str, Any], names: Sequence[str], where: str) -> str:
    """The first of the names that the row has.

    Raises:
        InputError: it has none of them.
    """
    present = next((name for name in names if row.get(name) is not None), None)
    if present is None:
        here = ", ".join(map(str, row))[:300] or "no field at all"
        raise InputError(f"{where}: field '{names[0]}' is missing (here: {here})", fix=NEEDED_FIELDS)
    return present


def text_of(row: Mapping[str, Any], field: str, where: str) -> str:
    """A field with a text or a number, as text without surrounding space.

    Raises:
        InputError: it is empty or of another type.
    """
    value = row[field]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"{where}: field '{field}': expected text, got {quoted(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{where}: field '{field}': {value} is not a finite number")
    if not str(value).strip():
        raise InputError(f"{where}: field '{field}' is empty", fix=NEEDED_FIELDS)
    return str(value).strip()


def quoted(value: Any) -> str:
    """A value for an error message, shortened."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
