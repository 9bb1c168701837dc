"""Reading dataset names and rows; shared by tasks."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from engine.errors import InputError, quoted
from engine.records import Problem

TEXT_FIELDS = ("problem", "question", "prompt", "text")
ANSWER_FIELDS = ("answer", "ground_truth")
NEEDED_FIELDS = (
    'Each row needs "problem" and "answer" (and optionally "id" and "task"): as a JSON object, or as a line of a CSV '
    "file whose first line has these names."
)


class UnusableRowError(InputError):
    """A row that cannot become a problem.

    Args:
        reason: a short stable code, for counting.
        what: the fault, as a sentence.
        row_id: the id that the problem would have had.
    """

    def __init__(self, reason: str, what: str, row_id: str = "") -> None:
        self.reason, self.row_id = reason, row_id
        super().__init__(what, fix="Fix the row, or remove it.")


def split_dataset_name(name: str, options: Sequence[str] = ()) -> tuple[str, str, dict[str, str]]:
    """The parts of ``NAME:PART?key=value&key=value``: name, part, options.

    Args:
        name: the whole name.
        options: the keys that are allowed.

    Raises:
        InputError: another key, or a key without a value.
    """
    without_options, _, query = name.partition("?")
    base, _, part = without_options.partition(":")
    try:
        values = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError:
        raise InputError(f"Invalid options in the dataset name {name!r}", fix=f"Write {base}?key=value.") from None
    unknown = sorted(values.keys() - set(options))
    if unknown:
        known = f"Options: {', '.join(options)}." if options else "It has no options."
        raise InputError(f"Unknown option {unknown[0]!r} in the dataset name {name!r}", fix=known)
    return base, part, values


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
        answer=after_mark(text_of(row, answer_field, where)),
        task=task,
        meta={key: row[key] for key in row if key not in ("id", "task", text_field, answer_field)},
    )


def after_mark(answer: str) -> str:
    """The number of an answer in the format of GSM8K: a solution, then a last line ``#### 18``."""
    match = re.search(r"^####[ \t]*(\S.*?)[ \t]*\Z", answer, re.MULTILINE)
    return match[1] if match else answer


_FIELD = re.compile(r"(?:\A|,)\s*(\w+)\s*=")


def read_field_map(text: str) -> dict[str, str]:
    """``problem=question,answer=final`` as a map: field that tasks read -> column of the rows.

    A column may be a template of several, as ``problem={passage}\\n\\n{question}``, or ``context+question``. Columns
    of a table without names are numbers, which may stand first: ``1=problem,6=answer``.

    Raises:
        InputError: a part is not of the form ``NAME=COLUMN``, or a name occurs twice.
    """
    starts = list(_FIELD.finditer(text))
    ends = [*(match.start() for match in starts[1:]), len(text)][: len(starts)]
    pairs = [(match[1], text[match.end() : end].strip()) for match, end in zip(starts, ends, strict=True)]
    pairs = [(source, name) if name.isdigit() and not source.isdigit() else (name, source) for name, source in pairs]
    fields = dict(pairs)
    is_whole = bool(starts) and starts[0].start() == 0 and not text.rstrip().endswith(",")
    if not is_whole or len(fields) < len(pairs) or not all(fields.values()):
        raise InputError(
            f"--fields: expected NAME=FIELD, separated by commas, got {quoted(text)}",
            fix="Write for example --fields problem=question,answer=final.",
        )
    names = {"question": "problem", "text": "problem", "ground_truth": "answer", "choices": "options"}
    return {names.get(name, name): source.replace("\\n", "\n") for name, source in fields.items()}


def field_of(row: Mapping[str, Any], names: Sequence[str], where: str) -> str:
    """The first of the names that the row has.

    Raises:
        InputError: it has none of them.
    """
    present = next((name for name in names if row.get(name) is not None), None)
    if present is None:
        here = ", ".join(map(str, row))[:300] or "no field at all"
        empty = next((name for name in names if name in row), None)
        missing, null = f"{where}: field '{names[0]}' is missing (here: {here})", f"{where}: field '{empty}' is null"
        names_it = f" If another field holds it: --fields {names[0]}=FIELD."
        raise InputError(missing if empty is None else null, fix=NEEDED_FIELDS + names_it)
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
