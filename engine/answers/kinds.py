"""How an answer is compared with the truth.

All texts are compared without case, quotes, markup, brackets around the whole, a final dot, and spaces that separate no
words. An answer that hedges is wrong: it has to equal one value, so that "billing or shipping" equals neither, and a
list of all labels equals none.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from dateutil import parser as dates

from engine.answers.chemistry import are_other_formulas
from engine.answers.chinese import half_width, read_choices
from engine.answers.dates import plain_date, with_english_months
from engine.answers.decimal_comma import with_decimal_points
from engine.answers.verify import is_value, verify_answer
from engine.mathematics.quantities.number_words import read_number_words
from engine.records import Outcome, Record
from engine.sandbox.worker import shared_pool

Kind = Literal[
    "choice", "label", "number", "formula", "text", "contains", "regex", "list", "set", "json", "date", "sql", "rubric"
]
KINDS: tuple[str, ...] = get_args(Kind)

MAX_ANSWER = 4000
"""Characters of an answer; a longer one is wrong."""
_MAX_PATTERN_TEXT = 1000
_PATTERN_S = 1.0
_CONTAINS_FACTOR, _CONTAINS_MORE = 3, 80
"""An answer that has to contain a text is at most three times as long, and 80 characters more."""
_EDGES = " \t\r\n\"'`*_“”‘’«»„‚「」『』"
_DASHES = str.maketrans("‐‑‒–—−", "------")
_SEPARATOR = re.compile(r"\s*[,;、，；\n]\s*")
_COMMA = re.compile(r"\s*[,、]\s*")
_BESIDE_CHINESE = re.compile(r"(?<=[\u3400-\u9fff]) | (?=[\u3400-\u9fff])")
"""A space that separates no words: Chinese has none between them."""
_IN_BRACKETS = re.compile(r"\(([^()\[\],;]+)\)|【([^】【,;]+)】")
_DENIES = re.compile(
    r"\b(?:not?|never|neither|nor|without|nicht|keine?[rmns]?|nie|weder|ohne|pas|jamais|ni|sans|nunca|tampoco|sin|non|mai|né"
    r"|senza|não|nem|sem)\b|n['’]t\b|[不没非无]"
)


class HowCompared(Record):
    """How the answers of a dataset are compared; stored with each problem.

    Args:
        kind: see :data:`KINDS`.
        also: further right answers beside the truth: any of them is right.
        marks: of ``choice`` and ``set``: the mark of each option, such as A, B, C.
        options: of ``choice`` and ``set``: the text of each option, in the order of ``marks``; may be unknown: empty.
        labels: of ``label``: all labels, as they are written in the dataset.
        ids: of ``label``: the class id of each label, in the order of ``labels``, if the dataset has ids too.
        keys: of ``json``: the keys of all rows; one that an object leaves out is empty.
        day_first: of ``date``: whether 3/4/2026 is the 3rd of April.
        tolerance: of ``number``: the largest relative error of a right answer; None: by the digits of the truth.
        decimal_comma: of ``number``: whether 1.234,5 is 1234.5.
        grouping_points: of numbers with decimal commas: whether 1.234 is 1234 only; else it is 1,234 too.
        chemistry: whether the answers are chemical formulas, so that CO is no Co.
    """

    kind: Kind
    also: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    day_first: bool = False
    tolerance: float | None = None
    decimal_comma: bool = False
    grouping_points: bool = False
    chemistry: bool = False


class Comparison(Record):
    """The result of a comparison.

    Args:
        is_correct: None if no checker could be started.
        fields: of ``json``: the share of the fields that are right; None for other kinds.
        why: what is wrong, for the analyst; empty if there is nothing to say.
    """

    is_correct: bool | None
    fields: float | None = None
    why: str = ""


def compare(answer: str, truth: str, how: HowCompared) -> Comparison:
    """Compare an answer with the truth. Ends in bounded time for any answer.

    Args:
        answer: from a model.
        truth: of the row: a text; several right ones are separated by ``|`` (``text``, ``contains``).
        how: the comparison.
    """
    if not answer.strip() or len(answer) > MAX_ANSWER:
        return Comparison(is_correct=False, fields=0.0 if how.kind == "json" else None)
    match how.kind:
        case "json":
            return _same_object(answer, truth)
        case "number":
            return _same_number(answer, truth, how)
        case "regex":
            return _matches(answer, truth)
        case "list" | "set":
            return Comparison(is_correct=_same_items(answer, truth, ordered=how.kind == "list"))
        case "date":
            said, right = read_date(answer, how.day_first), read_date(truth, how.day_first)
            return Comparison(is_correct=said is not None and said == right)
        case "contains":
            return Comparison(is_correct=any(_contains(answer, one) for one in alternatives(truth)))
        case _:
            rights = [truth] if how.kind == "label" else alternatives(truth)
            same = [one for one in rights if plain(answer) == plain(one)]
            is_other = how.chemistry and all(are_other_formulas(answer, one) for one in same)
            return Comparison(is_correct=bool(same) and not is_other)


def plain(text: str) -> str:
    """A text without case, quotes and markup around it, brackets around the whole, a final dot, and spaces that repeat.

    Commas have no space beside them, and neither have Chinese characters. The Chinese 、 is a comma.
    """
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_DASHES)
    words = _COMMA.sub(",", _BESIDE_CHINESE.sub("", " ".join(folded.split()))).strip(_EDGES)
    if not words.replace(".", "").isdigit():
        words = words.rstrip(".。!").rstrip(_EDGES)
    inner = _IN_BRACKETS.fullmatch(words)
    return (inner[1] or inner[2]).strip(_EDGES) if inner else words


def alternatives(truth: str) -> list[str]:
    """The texts that are right: the parts between ``|``, or the whole text if one of them is empty."""
    parts = [part.strip() for part in truth.split("|")]
    return parts if all(parts) else [truth]


def read_date(text: str, day_first: bool = False) -> datetime.date | None:
    """The date that a text is; None if it is none, or leaves year, month or day out."""
    text = half_width(text.strip(_EDGES)).rstrip("。")
    written = plain_date(text)
    text = with_english_months(text) if written is None else written
    if not 6 <= len(text) <= 40 or not any(char.isdigit() for char in text):
        return None
    found = []
    for default in (datetime.datetime(2001, 1, 1), datetime.datetime(2002, 2, 2)):
        try:
            is_iso = re.match(r"\d{4}-\d", text) is not None
            found.append(dates.parse(text, default=default, dayfirst=day_first and not is_iso).date())
        except (ValueError, OverflowError, TypeError):
            return None
    return found[0] if found[0] == found[1] else None


def read_items(text: str) -> list[str] | None:
    """The items of a list: a JSON array, or texts between commas, semicolons or lines; None if it is none."""
    text = text.strip()
    if text.startswith("["):
        value = read_json(text)
        return [_item(one) for one in value] if isinstance(value, list) else None
    items = [re.sub(r"^(?:[-*•]|\d+[.)])\s+", "", part).strip() for part in _SEPARATOR.split(text)]
    return [plain(item) for item in items if item]


def read_json(text: str) -> Any:
    """A JSON value; None if it is none, or an object has a key twice."""
    try:
        return json.loads(text, object_pairs_hook=_without_repeated_keys, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None


def _without_repeated_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _same_number(answer: str, truth: str, how: HowCompared) -> Comparison:
    answer, truth = half_width(answer.strip(_EDGES)), half_width(truth)
    number = read_number_words(answer.strip(".。"), skips_english=False)
    answer = answer if number is None else str(number)
    readings = [answer]
    if how.decimal_comma:
        meanings = (True,) if how.grouping_points else (True, False)
        readings = list(dict.fromkeys(with_decimal_points(answer, grouping_points=one) for one in meanings))
        truth = with_decimal_points(truth)
    comparison: Literal["measured", "exact"] = "measured" if how.tolerance or _is_measured(truth) else "exact"
    verdicts = [
        verify_answer(one.strip(_EDGES), truth, comparison=comparison, rel_tol=how.tolerance).correct
        for one in readings
    ]
    return Comparison(is_correct=True if True in verdicts else None if None in verdicts else False)


def _is_measured(truth: str) -> bool:
    """Whether a number has a unit or decimals, so that it is compared within its digits."""
    return is_value(truth, "measured") and re.fullmatch(r"[+-]?\d+", truth.strip()) is None


def _contains(answer: str, truth: str) -> bool:
    said, right = plain(answer), plain(truth)
    if not right or len(said) > _CONTAINS_FACTOR * len(right) + _CONTAINS_MORE:
        return False
    at = re.search(rf"(?<!\w){re.escape(right)}(?!\w)", said)
    before = said[: at.start()] if at else ""
    return at is not None and _DENIES.search(before) is None


def _matches(answer: str, pattern: str) -> Comparison:
    """Whether the whole answer matches a pattern; in a worker, as patterns may take exponential time."""
    if len(answer) > _MAX_PATTERN_TEXT:
        return Comparison(is_correct=False)
    payload = {"pattern": pattern, "text": answer.strip()}
    result = shared_pool().run(f"{__name__}:fullmatch", payload, _PATTERN_S)
    if result.outcome is Outcome.INFRA_FAULT:
        return Comparison(is_correct=None, why=result.error[:300])
    return Comparison(is_correct=bool(result.value) if result.outcome is Outcome.OK else False)


def fullmatch(payload: Mapping[str, str]) -> bool:
    """The job of a worker."""
    return re.fullmatch(payload["pattern"], payload["text"], re.IGNORECASE | re.DOTALL) is not None


def _same_items(answer: str, truth: str, *, ordered: bool) -> bool:
    if not ordered and (chosen := read_choices(answer)) and (choices := read_choices(truth)):
        return chosen == choices
    said, right = read_items(answer), read_items(truth)
    if said is None or right is None:
        return False
    return said == right if ordered else sorted(said) == sorted(right)


def _item(value: Any) -> str:
    return plain(value) if isinstance(value, str) else json.dumps(_folded(value), sort_keys=True)


def _same_object(answer: str, truth: str) -> Comparison:
    said, right = read_json(answer), read_json(truth)
    if not isinstance(right, dict) or not isinstance(said, dict):
        return Comparison(is_correct=said is not None and _folded(said) == _folded(right), fields=0.0)
    wrong = [key for key, value in right.items() if not _same_value(said.get(key, _MISSING), value)]
    share = 1 - len(wrong) / len(right) if right else float(not said)
    why = f"wrong or missing: {', '.join(wrong)[:200]}" if wrong else ""
    return Comparison(is_correct=not wrong and bool(right or not said), fields=share, why=why)


_MISSING = object()


def _same_value(said: Any, right: Any) -> bool:
    if isinstance(right, bool) or right is None or isinstance(said, bool):
        return said is right
    if isinstance(right, int | float) and isinstance(said, int | float):
        return math.isclose(said, right, rel_tol=1e-6, abs_tol=1e-9)
    return said is not _MISSING and _folded(said) == _folded(right)


def _folded(value: Any) -> Any:
    """A JSON value whose texts are plain and whose numbers are of one type."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {key: _folded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_folded(one) for one in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
