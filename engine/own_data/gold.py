r"""The right answers of rows, from the forms in which datasets store them.

A column may hold solutions that end with ``#### 72`` or ``\boxed{72}``, several right answers, an object with the text
of the answer, booleans, dates, or numbers whose type made 926 a 926.0.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.answers.reply import balanced
from engine.own_data.cells import as_text, is_filled, written_in
from engine.own_data.messages import are_messages, message_of

_MANY = 0.5
"""A form is that of a column if at least this share of its values has it."""
_BARE = re.compile(r".{0,40}\d.{0,40}")
"""What is an answer itself in a column of solutions; others have none, as proofs."""
_SOME = 0.3
_BOX = "\\boxed{"
_TEXTS = ("text", "texts", "value", "spans", "aliases", "normalized_aliases", "answer", "answers")
"""Keys of an object that holds the texts of right answers: SQuAD, TriviaQA, DROP."""
_POSITIONS = frozenset(
    "answer_start start end answer_end types type matched_wiki_entity_name normalized_matched_wiki_entity_name "
    "normalized_value answer_confidence answer_id tokens".split()
)


_NO_ANSWER = re.compile(r'proof|notfound|\s*\[?\s*\{.*"(?:func_name|instruction_id)".*', re.DOTALL)
"""What NuminaMath has where a problem has no answer; and the checks of replies in RLVR-IFEval, which are not here."""


@dataclass(frozen=True)
class Gold:
    """The right answers of a dataset.

    Args:
        form: how the column holds them: "value", one of :data:`SOLUTIONS`, "any of several", or "list" where the answer
            is a list.
        answers: those of each row: any of them is right, or they are the items of a list; empty if it has none.
        is_boolean: whether the values are true and false.
    """

    form: str
    answers: list[tuple[str, ...]]
    is_boolean: bool = False


def read_gold(values: Sequence[Any]) -> Gold:
    """The right answers in a column.

    Args:
        values: of each row; None where it is empty.
    """
    values = [*map(listed, values)]
    filled = [value for value in values if is_filled(value)]
    texts = [value for value in filled if isinstance(value, str)]
    for form, read in SOLUTIONS.items():
        if texts and sum(read(text) is not None for text in texts) / len(filled) >= _MANY:
            return Gold(form, [in_solution(value, form) for value in values])
    if len(texts) < len(filled) and any(_several(value) is not None for value in filled):
        several = [_several(value) for value in values]
        answers = [listed if listed is not None else _one(value) for listed, value in zip(several, values, strict=True)]
        if all(len(answer) < 2 for answer in answers):
            return Gold("value", answers)
        return Gold(_form_of_lists(filled, answers), answers)
    is_boolean = bool(filled) and all(isinstance(value, bool) for value in filled)
    return Gold("value", [_one(value) for value in values], is_boolean)


def listed(value: Any) -> Any:
    """The list, or the object with answers, that a table writes; None for what says that there is no answer.

    Of messages, as TRL has completions, it is the text of the last one.
    """
    if are_messages(value):
        return message_of(value[-1])[1]
    if isinstance(value, str) and _NO_ANSWER.fullmatch(value):
        return None
    if isinstance(value, str) and re.match(r"\s*(?:\[['\"]|\{')", value):
        with contextlib.suppress(ValueError):
            content = written_in(value)
            return content if _several(content) is not None else value
    return value


def in_solution(value: Any, form: str) -> tuple[str, ...]:
    """The answer in a solution, which most have in one form; none in a text that states none."""
    text = as_text(value)
    stated = next(filter(None, (SOLUTIONS[each](text) for each in (form, *SOLUTIONS))), None)
    return _one(stated or (text if _BARE.fullmatch(text) else None))


def _one(value: Any) -> tuple[str, ...]:
    if not is_filled(value):
        return ()
    answer = as_text(value).strip()
    delimited = re.fullmatch(r"\$([^$]+)\$", answer)
    answer = delimited[1].strip() if delimited else answer
    return (answer,) if answer else ()


def _marked(text: str) -> str | None:
    return text.rpartition("####")[2].strip().partition("\n")[0] if "####" in text else None


def _boxed(text: str) -> str | None:
    start = text.rfind(_BOX)
    return (balanced(text, start + len(_BOX)) or "").strip() or None if start >= 0 else None


def _stated(text: str) -> str | None:
    after = text.rpartition("he answer is")[2] if "he answer is" in text else ""
    return _boxed(after) or after.strip(" :.\n") or None


def _tagged(text: str) -> str | None:
    match = re.fullmatch(r".*<answer>\s*(.+?)\s*</answer>\s*", text, re.DOTALL)
    return match[1] if match else None


SOLUTIONS = {"after ####": _marked, "in the last box": _boxed, 'after "the answer is"': _stated, "in <answer>": _tagged}
"""Form of a solution -> what finds the right answer in it."""


def _several(value: Any) -> tuple[str, ...] | None:
    """The texts of a list or of an object that holds several; None for other values."""
    if isinstance(value, Mapping):
        keys = [key for key in _TEXTS if key in value]
        if not keys or not value.keys() <= {*_TEXTS, *_POSITIONS}:
            return None
        texts = [text for key in keys for text in _several(value[key]) or _one(value[key])]
        return tuple(dict.fromkeys(texts))
    if not isinstance(value, list):
        return None
    if value and all(isinstance(entry, Mapping) and _several(entry) is not None for entry in value):
        return tuple(text for entry in value for text in _several(entry) or ())
    return tuple(filter(None, map(as_text, value)))


def _form_of_lists(values: Sequence[Any], answers: Sequence[tuple[str, ...]]) -> str:
    """Whether lists hold several right answers, or are the answer themselves.

    Names of one thing are alike, or repeat; the items of a list are different, and often occur in other rows too.
    """
    lists = [answer for answer in answers if answer]
    longer = [answer for answer in lists if len(answer) > 1]
    items = [item for value in values for item in (value if isinstance(value, list) else [value])]
    if longer and all(_are_numbers(value) for value in values if isinstance(value, list)):
        return "list"
    if not longer or any(isinstance(item, Mapping) for item in items):
        return "any of several"
    alike = sum(_are_alike(answer) for answer in longer)
    are_letters = all(re.fullmatch(r"\(?[A-Z]\)?", item) for answer in lists for item in answer)
    is_mixed = len(lists) - len(longer) >= _SOME * len(lists)
    repeated = {item for answer in longer for item in set(answer)}
    counts = sum(len(set(answer)) for answer in longer)
    if alike >= _SOME * len(longer) or (is_mixed and len(repeated) > _SOME * counts and not are_letters):
        return "any of several"
    return "list"


def _are_numbers(value: list[Any]) -> bool:
    return all(isinstance(item, int | float) and not isinstance(item, bool) for item in value)


def _are_alike(texts: Sequence[str]) -> bool:
    """Whether two of the texts share a word, or one is a part of the other."""
    words = [set(re.findall(r"\w+", text.casefold())) for text in texts]
    return len(set(texts)) < len(texts) or any(
        first & second for index, first in enumerate(words) for second in words[index + 1 :]
    )
