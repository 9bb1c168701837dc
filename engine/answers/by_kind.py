"""How an answer is compared with the truth.

All texts are compared without case, quotes, markup, brackets around the whole, a final dot, an article at the start,
and spaces that separate no words. An answer that hedges is wrong: it has to equal one value, so that "billing or
shipping" equals neither, and a list of all labels equals none.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from engine.answers.dates import read_date
from engine.answers.how_compared import LETTERS, HowCompared
from engine.answers.reply import unwrapped
from engine.answers.verify import is_value, verify_answer
from engine.answers.words import DENIES, EDGES, HEDGES, half_width, read_choices
from engine.answers.words import plain as plain
from engine.mathematics.parsing.notation import clean
from engine.mathematics.quantities.number_words import read_number_words
from engine.records import Record

MAX_ANSWER = 4000
"""Characters of an answer; a longer one is wrong."""
_CONTAINS_FACTOR, _CONTAINS_MORE = 3, 80
"""An answer that has to contain a text is at most three times as long, and 80 characters more."""
_SEPARATOR = re.compile(r"\s*[,;、，；\n]\s*(?:(?:and|和)\s+)?|\s+(?:and|&)\s+|(?<=[A-Z])[和及与](?=[A-Z])")
_ITEM_MARK = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+", re.MULTILINE)
_FRAME = re.compile(r"(?P<subject>(?:\w+[ ']){0,5}?\w+)\s+(?:is|are|was|were)\s*:?\s+(?P<value>.+)", re.I | re.DOTALL)
"""A sentence that only says that something is the value."""
_BARE_NUMBER = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?(?:\s*\\times\s*10\s*\^\s*\{?[-+]?\d+\}?)?", re.ASCII)
_PLAIN_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d+)?|\d+/\d+)", re.ASCII)
_SQL_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|[\w.]+|[<>!]=|<>|\S")


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
    if how.kind == "json":
        return _same_object(answer, truth, how)
    rights = (truth, *how.also)
    if how.kind in _SAME:
        verdicts = [_SAME[how.kind](answer, right, how) for right in rights]
    else:
        same = _contains if how.kind == "contains" else _same_text
        verdicts = [same(answer, text) for right in rights for text in alternatives(right)]
    # None if no checker could be started for one of them, and none of the others is True
    return Comparison(is_correct=True if True in verdicts else None if None in verdicts else False)


def named(answer: str, how: HowCompared) -> str | None:
    """The label, or the mark of the option, that an answer names; None for none or several, and for other kinds."""
    index = how.named().said(answer) if how.kind in ("label", "choice") and len(answer) <= MAX_ANSWER else None
    return None if index is None else (how.labels or how.marks or LETTERS)[index]


def alternatives(truth: str) -> list[str]:
    """The texts that are right: the parts between ``|``, or the whole text if one of them is empty."""
    texts = [text.strip() for text in truth.split("|")]
    return texts if all(texts) else [truth]


def read_items(text: str) -> list[str] | None:
    """The items of a list: a JSON array, or texts between commas, semicolons or lines; None if it is none."""
    text = text.strip(" \n`")
    value = read_json(text) if text.startswith(("[", "{")) else None
    if isinstance(value, dict):  # the only one of a list of objects
        value = [value]
    if value is not None:
        return [_item(item) for item in value] if isinstance(value, list) else None
    text = text[1:-1] if re.fullmatch(r"\[[^\[\]{}\"']*\]", text) else text  # [Paris, London]
    if text.startswith("["):
        return None
    items = [_ITEM_MARK.sub("", item).strip() for item in _SEPARATOR.split(_ITEM_MARK.sub("", text))]
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


def _same_number(answer: str, truth: str, how: HowCompared) -> bool | None:
    answer, truth = half_width(answer.strip(EDGES)), half_width(truth)
    if how.unit and _BARE_NUMBER.fullmatch(bare := clean(unwrapped(answer) or answer)):
        bare_how = how.model_copy(update={"unit": ""})  # a unit may be a scale: 5.2 million is 5200000
        return _same_number(how.with_unit(bare), truth, bare_how) or _same_number(bare, truth, bare_how)
    truth = truth if how.tolerance else re.sub(r"\A\s*([+-]?\d+)\.0+\s*\Z", r"\1", truth)
    number = read_number_words(answer.strip(".。"))
    answer = answer if number is None else str(number)
    bare = answer.rstrip("\\% ")
    if bare != answer and re.fullmatch(r"[1-9][\d,]*(?:\.\d+)?", truth.strip()):  # a unit on one side only
        answer = bare
    comparison: Literal["measured", "exact"] = "measured" if how.tolerance or _is_measured(truth) else "exact"
    return verify_answer(answer.strip(EDGES), truth, comparison=comparison, rel_tol=how.tolerance).correct


def _is_measured(truth: str) -> bool:
    """Whether a number has a unit or decimals, so that it is compared within its digits."""
    return is_value(truth, "measured") and re.fullmatch(r"[+-]?\d+|\\?\$\s?[\d.,]+", truth.strip()) is None


def _contains(answer: str, truth: str) -> bool:
    text, right = plain(answer), plain(truth)
    if not right or len(text) > _CONTAINS_FACTOR * len(right) + _CONTAINS_MORE:
        return False
    at = re.search(rf"(?<!\w){re.escape(right)}(?!\w)", text)
    before = text[: at.start()] if at else ""
    return at is not None and DENIES.search(before) is None


def _same_name(answer: str, truth: str, how: HowCompared) -> bool:
    if how.kind == "label" and not how.labels:
        return plain(answer) == plain(truth)
    names = how.named()
    if how.kind == "label" and names.exactly(truth) is None:  # a prompt that lists the likeliest labels may lack it
        names = how.model_copy(update={"labels": (*how.labels, truth), "ids": ()}).named()
    index = names.said(answer)
    return index is not None and index == names.exactly(truth)


def _same_date(answer: str, truth: str, how: HowCompared) -> bool:
    frame = _FRAME.fullmatch(answer.strip(EDGES + "."))
    date = read_date(answer, how.day_first) or read_date(frame["value"] if frame else "", how.day_first)
    return date is not None and date == read_date(truth, how.day_first)


def _same_text(answer: str, truth: str) -> bool:
    """Whether a text is the truth, also in a sentence that only frames it, or as the same words in a list."""
    right = plain(truth)
    frame = _FRAME.fullmatch(answer.strip(EDGES + "."))
    is_framed = frame and not DENIES.search(frame["subject"]) and not HEDGES.search(frame["subject"])
    remark = re.search(r"\s\([^()]*\)\Z", answer)
    is_remark = remark and not DENIES.search(remark[0]) and not HEDGES.search(remark[0])
    ways = [answer, unwrapped(answer) or "", frame["value"] if frame and is_framed else ""]
    ways += [answer[: remark.start()]] if remark and is_remark else []
    if answer.strip() == truth.strip() or any(plain(way) == right != "" for way in ways):  # "" is that of "!"
        return True
    words = _words(truth)
    return len(words) > 1 and _words(answer) == words


def _words(text: str) -> list[str]:
    """The words of a text, or of a list of words in several lines or with commas."""
    value = read_json(text) if text.lstrip().startswith("[") else None
    if isinstance(value, list):
        return [plain(str(item)) for item in value]
    return [plain(word.strip(",;、，；")) for word in _ITEM_MARK.sub("", text).strip(EDGES + ".").split()]


def _same_items(answer: str, truth: str, how: HowCompared) -> bool:
    is_ordered = how.kind == "list"
    if not is_ordered and (how.marks or how.options or read_choices(truth)):
        chosen, right = _chosen(answer, how), _chosen(truth, how)
        if chosen is not None and right is not None:
            return chosen == right
    items, right_items = read_items(answer), read_items(truth)
    if items is None or right_items is None:
        return False
    if not is_ordered:
        return Counter(items) == Counter(right_items)
    return len(items) == len(right_items) and all(map(_same_item, items, right_items))


def _same_item(answer: str, truth: str) -> bool:
    is_number = _PLAIN_NUMBER.fullmatch(truth) is not None
    return answer == truth or (is_number and _same_number(answer, truth, HowCompared(kind="number")) is True)


def _chosen(text: str, how: HowCompared) -> frozenset[str] | None:
    """The marks of the options that a text names; None if a part of it names none."""
    marks = how.marks or LETTERS
    letters = read_choices(text)
    if letters is not None and letters <= {*marks}:
        return letters
    if DENIES.search(text) or HEDGES.search(text):
        return None
    value = read_json(text) if text.strip().startswith("[") else None
    items = list(map(str, value)) if isinstance(value, list) else []
    ways = [items] if items else [_ITEM_MARK.sub("", text).split("\n"), _SEPARATOR.split(text)]
    for way in ways:
        indices = [how.named().said(item) for item in way if item.strip(" .`*")]
        if indices and None not in indices and len({*indices}) == len(indices):
            return frozenset(marks[index] for index in indices if index is not None)
    return None


def _sql(text: str) -> list[str]:
    """A query as its tokens, without case outside of literals, the final semicolon and a fence around it."""
    query = re.sub(r"\A\s*```\w*\n?|```\s*\Z", "", text).strip().rstrip("; \n`").replace("`", "")
    return [token if token[0] == "'" else token.strip('"').casefold() for token in _SQL_TOKEN.findall(query)]


_SAME: Mapping[str, Callable[[str, str, HowCompared], bool | None]] = {
    "number": _same_number,
    "formula": lambda answer, truth, how: verify_answer(answer, truth).correct,
    "list": _same_items,
    "set": _same_items,
    "date": _same_date,
    "choice": _same_name,
    "label": _same_name,
    "sql": lambda answer, truth, how: _sql(answer) == _sql(truth),
}
"""Kinds whose truth is not divided at ``|``."""


def _item(value: Any) -> str:
    if isinstance(value, int | float):
        return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)
    return plain(value) if isinstance(value, str) else json.dumps(_folded(value), sort_keys=True)


def _same_object(answer: str, truth: str, how: HowCompared) -> Comparison:
    left, right = read_json(answer), read_json(truth)
    if not isinstance(right, dict) or not isinstance(left, dict):
        return Comparison(is_correct=left is not None and _folded(left) == _folded(right), fields=0.0)
    asked = [*{**right, **dict.fromkeys(how.keys)}]
    wrong = [key for key in asked if not _same_value(left.get(key), right.get(key))]
    more = [key for key, value in left.items() if key not in asked and not _is_empty(value)]
    faults = (("wrong or missing", wrong), ("not asked for", more))
    why = [f"{fault}: {', '.join(keys)[:200]}" for fault, keys in faults if keys]
    share = 1 - len(wrong) / len(asked) if asked else float(not more)
    return Comparison(is_correct=not wrong and not more, fields=share, why="; ".join(why))


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {})


def _same_value(left: Any, right: Any) -> bool:
    if _is_empty(right) or _is_empty(left):
        return _is_empty(right) and _is_empty(left)
    if isinstance(right, bool) or isinstance(left, bool):
        return left is right
    if isinstance(right, int | float) and isinstance(left, int | float):
        return math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-9)
    if all(isinstance(value, list) and all(isinstance(item, str) for item in value) for value in (left, right)):
        return Counter(map(plain, left)) == Counter(map(plain, right))  # entities have no order
    return bool(_folded(left) == _folded(right))


def _folded(value: Any) -> Any:
    """A JSON value whose texts are plain and whose numbers are of one type."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {key: _folded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_folded(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
