"""The question and the right answer of a row that is read alone, without the other rows of its dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.errors import InputError
from engine.own_data.cells import is_filled, is_text, plain_name
from engine.own_data.columns import ANSWERS, LABELS, NO_CONTENT, QUESTIONS
from engine.own_data.describe import describe


def answer_column(row: Mapping[str, Any]) -> str | None:
    """The column of the right answer of a row, or of its class; None without one."""
    return _first_named(row, (*ANSWERS, *LABELS))


def question_column(row: Mapping[str, Any], answer: str | None) -> str | None:
    """The column of the question of a row: by its name, or as the only other text.

    Args:
        row: of a dataset.
        answer: the column of its right answer, if it has one.
    """
    texts = {name: value for name, value in row.items() if name != answer and is_filled(value) and is_text(value)}
    others = [name for name in texts if plain_name(name) not in NO_CONTENT]
    return _first_named(texts, QUESTIONS) or (others[0] if len(others) == 1 else None)


def question_of(row: Mapping[str, Any]) -> str:
    """The text of a row: its question with context and options, as the prompts of a dataset show it.

    Raises:
        InputError: it is not clear which column is the question.
    """
    answer = answer_column(row) or "answer"
    asked = {name: value for name, value in row.items() if name != answer}
    answered = {**asked, answer: "-"}  # the row of a question has none
    try:
        plain_row, _ = describe([answered], where="", fields={"answer": answer}).plain_row(answered, "")
    except InputError:
        raise InputError(
            "It is not clear which column of a row is the question",
            why=f"The columns are {', '.join(asked) or 'none'}.",
            fix="Name it: --fields problem=COLUMN, or several: --fields 'problem={ONE} {OTHER}'.",
        ) from None
    return str(plain_row["problem"])


def _first_named(row: Mapping[str, Any], names: Iterable[str]) -> str | None:
    columns = {plain_name(name): name for name in reversed([*row]) if is_filled(row[name])}
    return next((columns[name] for name in names if name in columns), None)
