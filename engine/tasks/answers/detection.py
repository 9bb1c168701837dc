"""What a dataset of questions and answers is: its fields, and how its answers are compared."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from engine.answers.chemistry import are_of_chemistry
from engine.answers.chinese import half_width, read_choices
from engine.answers.dates import plain_date
from engine.answers.decimal_comma import uses_decimal_commas, uses_grouping_points, with_decimal_points
from engine.answers.kinds import KINDS, HowCompared, alternatives, plain, read_date, read_json
from engine.answers.spoken import plainly_written
from engine.answers.verify import is_value, verify_answer
from engine.errors import InputError
from engine.mathematics.parsing.notation import clean
from engine.mathematics.quantities.units import read_quantity
from engine.tasks.rows import ANSWER_FIELDS, TEXT_FIELDS

RUBRIC_FIELD = "rubric"
"""The field of rows without a right answer: what a judge looks for."""
QUESTIONS = (
    *TEXT_FIELDS,
    *"input query instruction message mail email sentence review document 题目 问题 题干".split(),
)
ANSWERS = (*ANSWER_FIELDS, *"label output target expected class category gold 答案 标签".split(), RUBRIC_FIELD)
_NOT_COLUMNS = frozenset({"id", "task", "compare", "meta", "index", "split"})
_MOST_LABELS, _LONGEST_LABEL = 30, 60
_LARGEST_TOLERANCE = 0.5
_MOSTLY = 4
"""Answers are mostly numbers where at most one of so many is none."""
_UNIT_NUMBER = re.compile(
    r"[+−-]?(?:(?:US|R)?\$\s?|[€£¥￥₹]\s?)?[\d.,]+(?:[eE][+-]?\d+)?\s*(?:[%‰€$£°]|°?[^\W\d_][\w/^·°µ-]*)?"
)


def columns(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """The fields of the question and the answer of a row; None if it is not clear which they are.

    Known names come first, without case. Else a row of two fields has the question in the one with the longer text.
    """
    names = {str(name).lower(): name for name in row if isinstance(name, str)}
    question = next((names[one] for one in QUESTIONS if one in names and _is_text(row[names[one]])), None)
    answer = next((names[one] for one in ANSWERS if one in names and row[names[one]] is not None), None)
    if question is not None and answer is not None:
        return question, answer
    rest = [name for name in row if str(name).lower() not in _NOT_COLUMNS and row[name] is not None]
    known = question or answer
    if known is not None and len(rest) == 2:
        other = next(name for name in rest if name != known)
        return (known, other) if question is not None else (other, known)
    if len(rest) == 2 and all(isinstance(row[name], str | int | float) for name in rest):
        first, second = rest
        return (first, second) if len(str(row[first])) >= len(str(row[second])) else (second, first)
    return None


def answer_text(value: Any) -> str:
    """A field of an answer as text; objects and lists as JSON."""
    if isinstance(value, str):
        return value.strip()
    return json.dumps(value, ensure_ascii=False)


def how_compared(answers: Sequence[str], kind: str | None = None) -> HowCompared:
    """How the answers of a dataset are compared.

    Args:
        answers: the right ones of all rows.
        kind: as the user says, such as ``text`` or ``number:2%``; None: found out.

    Raises:
        InputError: an unknown kind or tolerance, or answers that it does not fit.
    """
    found, colon, after = (kind or _kind_of(answers)).partition(":")
    if found not in KINDS:
        raise InputError(f"Unknown comparison {kind!r}", fix=f"Use one of {', '.join(KINDS)}.")
    tolerance = _tolerance(found, after) if colon else None
    chemistry = are_of_chemistry(answers)
    if found == "text":
        return HowCompared(kind="text", chemistry=chemistry)
    if found == "label":
        written: dict[str, str] = {}
        for answer in answers:
            written.setdefault(answer if chemistry else plain(answer), answer)
        return HowCompared(kind="label", labels=tuple(sorted(written.values())), chemistry=chemistry)
    if found == "date":
        return HowCompared(kind="date", day_first=_is_day_first(answers))
    if found == "number":
        answers = [half_width(answer) for answer in answers]
    commas = found == "number" and uses_decimal_commas(answers)
    points = commas and uses_grouping_points(answers)
    how = HowCompared(kind=found, tolerance=tolerance, decimal_comma=commas, grouping_points=points)  # type: ignore[arg-type]
    check_truths(answers, how)
    return how


def _tolerance(kind: str, text: str) -> float:
    """The relative error that ``number:2%`` allows: 0.02."""
    given = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?)\s*%", text.strip())
    value = float(given[1]) / 100 if given else 0.0
    if kind != "number" or not 0 < value <= _LARGEST_TOLERANCE:
        raise InputError(
            f"--compare {kind}:{text[:40]} is no tolerance",
            fix="Write number:2% for answers that may be wrong by 2 percent of the truth; up to 50% is possible.",
        )
    return value


def check_truths(answers: Sequence[str], how: HowCompared) -> None:
    """Raise ``InputError`` if answers cannot be compared in this way."""
    for answer in answers:
        if how.kind == "json" and not isinstance(read_json(answer), dict):
            raise InputError(f"--compare json: the answer {answer[:60]!r} is no JSON object")
        if how.kind == "number" and not (is_value(answer) and any(map(str.isnumeric, answer))):
            raise InputError(f"--compare number: the answer {answer[:60]!r} is no number")
        if how.kind == "date" and read_date(answer, how.day_first) is None:
            raise InputError(f"--compare date: the answer {answer[:60]!r} is no date with day, month and year")
        if how.kind == "regex":
            try:
                re.compile(answer)
            except re.error as error:
                raise InputError(f"--compare regex: {answer[:60]!r} is no regular expression: {error}") from None


def described(how: HowCompared) -> str:
    """The comparison in a few words, for the start of a run."""
    if how.kind == "rubric":
        return "judged by the rubric of each row"
    if how.kind == "label":
        shown = ", ".join(how.labels[:6]) + (", ..." if len(how.labels) > 6 else "")
        return f"compared as one of {len(how.labels)} labels ({shown})"
    thousands = "1234" if how.grouping_points else "1234 or 1,234"
    names = {
        "number": "numbers"
        + (f" with decimal commas (1.234 is {thousands})" if how.decimal_comma else "")
        + (f", right within {100 * how.tolerance:g} %" if how.tolerance else ""),
        "text": "short texts, equal but for case and punctuation",
        "contains": "texts that the answer has to contain",
        "regex": "regular expressions",
        "list": "lists in their order",
        "set": "lists in any order",
        "json": "JSON objects, field by field",
        "date": "dates" + (", day first" if how.day_first else ""),
    }
    return f"compared as {names[how.kind]}"


def nearly_numbers(answers: Sequence[str], how: HowCompared) -> str:
    """A remark on answers that are read as texts or labels although most of them are numbers; else empty."""
    others = [answer for answer in answers if not _reads_as_number(half_width(answer))]
    if how.kind not in ("text", "label") or not others or _MOSTLY * len(others) > len(answers):
        return ""
    return (
        f"; {len(answers) - len(others)} of {len(answers)} are numbers, but not {others[0][:30]!r} (--compare number)"
    )


def _kind_of(answers: Sequence[str]) -> str:
    values = [read_json(answer) if answer[:1] in "{[" else None for answer in answers]
    if all(isinstance(value, dict) for value in values):
        return "json"
    if all(isinstance(value, list) for value in values):
        return "list"
    if all(map(_is_number, answers)):
        return "number"
    if all(read_date(answer) is not None for answer in answers):
        return "date"
    if all(map(_are_choices, answers)) and any(len(read_choices(answer) or ()) > 1 for answer in answers):
        return "set"
    counts = Counter(map(plain, answers))
    few = len(counts) <= _MOST_LABELS and 2 * len(counts) <= len(answers) and len(counts) > 1
    if few and all(len(answer) <= _LONGEST_LABEL and alternatives(answer) == [answer] for answer in answers):
        return "label"
    return "text"


def _reads_as_number(answer: str) -> bool:
    """Whether an answer is a number, also with a word after it or with a unit of several parts: ``3,2·10^4 kg m/s``."""
    if plain_date(answer):
        return False
    if _UNIT_NUMBER.fullmatch(answer):
        return True
    texts = (plainly_written(clean(text), reads_times=False) for text in {answer, with_decimal_points(answer)})
    quantities = map(read_quantity, texts)
    return any(quantity is not None and quantity.number is not None and not quantity.prose for quantity in quantities)


def _are_choices(answer: str) -> bool:
    """Whether an answer names choices in their order. In another order, as BDAC, the order may be what is asked for."""
    choices = read_choices(answer) if half_width(answer).isupper() else None
    return choices is not None and [letter for letter in half_width(answer) if letter in choices] == sorted(choices)


def _is_number(answer: str) -> bool:
    answer = half_width(answer)
    if not _reads_as_number(answer):
        return False
    try:
        return verify_answer(answer, answer, comparison="measured").correct is True
    except InputError:
        return False


def _is_day_first(answers: Sequence[str]) -> bool:
    """Whether some answer can only be read with the day first, as 31/12/2026."""
    numbers = [re.match(r"(\d{1,2})[./-](\d{1,2})[./-]\d{2,4}", answer) for answer in answers]
    return any(found is not None and int(found[1]) > 12 for found in numbers)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
