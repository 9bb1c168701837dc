"""The options of a choice: in columns of their own, or in the text of the question."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.answers.words import half_width
from engine.own_data.cells import as_text, is_filled, value_of, written_in

SCORED_OPTIONS = ("targetscores", "mc1targets")
"""Columns with the scores of options, as ``target_scores`` of BIG-bench."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MARKED = re.compile(r"\s*[(\[（]?([A-Za-z]|\d{1,2})[)\].:、．）：]\s*(.*)", re.DOTALL)
_IN_BRACKETS = re.compile(r"(?<!\w)[(（]([A-Z]|\d{1,2})[)）]")
_AT_LINES = re.compile(r"(?:^|(?<=\n)|(?<=\s{2})|(?<=\t))[ \t]*([A-Z]|\d{1,2})[).:．、][ \t]*(?=\S)", re.MULTILINE)
_INLINE = re.compile(r"(?<![\w(])([A-Z])[).．、:][ \t]*(?=\S)")


@dataclass(frozen=True)
class Options:
    """The options of one problem.

    Args:
        marks: A, B, C, or the marks that the dataset has.
        texts: the text of each.
    """

    marks: tuple[str, ...]
    texts: tuple[str, ...]

    def mark_of(self, answer: str, base: int | None) -> str | None:
        """The mark of a right answer, given as mark, ``(B)``, index or text; None if it is none of the options.

        Args:
            answer: the value of the dataset.
            base: the index of the first option, where the answers are indices.
        """
        if base is not None:
            index = int(answer) - base if re.fullmatch(r"\d+", answer) else -1
            return self.marks[index] if 0 <= index < len(self.marks) else None
        bare = mark_in(answer)
        if bare in self.marks:
            return bare
        same = [mark for mark, text in zip(self.marks, self.texts, strict=True) if _folded(text) == _folded(answer)]
        if len(same) == 1:
            return same[0]
        marked = _MARKED.fullmatch(answer)
        options = zip(self.marks, map(_folded, self.texts), strict=True)
        return marked[1] if marked and (marked[1], _folded(marked[2])) in options else None

    def lines(self) -> str:
        """The options as a prompt shows them."""
        return "\n".join(f"({mark}) {text}" for mark, text in zip(self.marks, self.texts, strict=True))


def mark_in(answer: str) -> str:
    """``B`` of ``(B)``, ``B.``, ``[B]`` and ``Ｂ``; a text of another form as it is."""
    answer = half_width(answer).strip()
    match = re.fullmatch(r"[(\[]?\s*([A-Za-z]|\d{1,2})\s*[)\].:]?", answer)
    return match[1] if match else answer


def options_of(row: Mapping[str, Any], columns: Sequence[str]) -> Options | None:
    """The options of a row in its columns; None if it has fewer than two."""
    if len(columns) == 1:
        return listed_options(value_of(row, columns[0]))
    texts = [as_text(value_of(row, name)) for name in columns]
    while texts and not texts[-1]:
        texts.pop()
    return _lettered(texts) if len(texts) > 1 and all(texts) else None


def shuffled_options(texts: Sequence[str], key: str) -> Options | None:
    """Options in an order that depends on the texts alone: where the right one is always first, its place tells it."""
    return _lettered(sorted(texts, key=lambda text: hashlib.sha256(f"{key}\n{text}".encode()).digest()))


def listed_options(value: Any) -> Options | None:
    """The options that a value holds: a list, an object or a text; None if it has none."""
    if isinstance(value, Mapping):
        texts, labels = value.get("text", value.get("texts")), value.get("label", value.get("labels"))
        if isinstance(texts, list) and (labels is None or isinstance(labels, list)):
            return _with_marks([as_text(text) for text in texts], [as_text(label) for label in labels or ()])
        filled = {mark_in(str(key)): as_text(text) for key, text in value.items() if is_filled(text)}
        return _with_marks(list(filled.values()), list(filled)) if all(len(mark) <= 2 for mark in filled) else None
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            if isinstance(content := written_in(value), list | dict):  # MuSR, MMMU, and objects in tables
                return listed_options(content)
        return _in_string(value)
    if not isinstance(value, list) or len(value) < 2:
        return None
    if all(isinstance(option, Mapping) for option in value):
        texts = [_first_of(option, ("text", "content", "value", "option")) for option in value]
        marks = [_first_of(option, ("label", "key", "id", "mark")) for option in value]
        return _with_marks(texts, marks) if all(texts) else None
    texts = [as_text(option) for option in value]
    matches = [_MARKED.fullmatch(text) for text in texts]
    marks = [match[1] if match else "" for match in matches]
    if [mark.upper() for mark in marks] == list(LETTERS[: len(marks)]):
        return _with_marks([match[2].strip() for match in matches if match], marks)
    return _lettered(texts) if all(texts) else None


def _first_of(option: Mapping[str, Any], keys: Sequence[str]) -> str:
    return as_text(next((option[key] for key in keys if key in option), ""))


def _in_string(value: str) -> Options | None:
    """Options in one text, as ``a ) 38 , b ) 27``."""
    matches = list(re.finditer(r"(?:^|[\s,;\[])'?\(?([A-Za-z])\s*[).:]\s*", value))
    ends = [*(match.start() for match in matches[1:]), len(value)][: len(matches)]
    texts = [value[match.end() : end].strip(" ,;'\"[]\n") for match, end in zip(matches, ends, strict=True)]
    marks = [match[1] for match in matches]
    is_series = "".join(marks).upper() == LETTERS[: len(marks)]
    return _with_marks(texts, marks) if is_series and all(texts) else None


def _with_marks(texts: list[str], marks: list[str]) -> Options | None:
    if len(texts) < 2:
        return None
    are_marks = all(re.fullmatch(r"[A-Za-z]|\d{1,2}", mark) for mark in marks)
    is_usable = are_marks and len(marks) == len(set(marks)) == len(texts)
    return Options(tuple(marks), tuple(texts)) if is_usable else _lettered(texts)


def _lettered(texts: Sequence[str]) -> Options | None:
    return Options(tuple(LETTERS[: len(texts)]), tuple(texts)) if len(texts) <= len(LETTERS) else None


def options_in_text(text: str) -> Options | None:
    """The options that a question lists: ``(A) stone (B) river``, or lines ``A. stone``; None if it lists none."""
    text = text[-20_000:]
    for pattern in (_IN_BRACKETS, _AT_LINES, _INLINE):
        run = _run(list(pattern.finditer(text)))
        if run:
            ends = [match.start() for match in run[1:]] + [_end(text, run)]
            texts = tuple(text[match.end() : end].strip(" \t\r\n,;") for match, end in zip(run, ends, strict=True))
            if all(texts):
                return Options(tuple(match[1] for match in run), texts)
    return None


def _run(matches: Sequence[re.Match[str]]) -> list[re.Match[str]]:
    """The last run of marks that begins with A or 1 and goes on in order, of two or more."""
    best: list[re.Match[str]] = []
    run: list[re.Match[str]] = []
    for match in matches:
        last = run[-1][1] if run else ""
        after = str(int(last) + 1) if last.isdigit() else chr(ord(last) + 1) if last else ""
        run = [*run, match] if run and match[1] == after else [match] if match[1] in ("A", "1") else run
        best = run if len(run) > 1 and run[0][1] in ("A", "1") else best
    return best


def _end(text: str, run: Sequence[re.Match[str]]) -> int:
    """Where the text of the last option ends: at the end of its line where options are on lines, else of the text."""
    last = run[-1].end()
    on_lines = "\n" in text[run[-2].end() : run[-1].start()]
    end = text.find("\n", last) if on_lines else -1
    return len(text) if end < 0 else end


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")
