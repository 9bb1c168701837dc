"""Compare single values without heavy libraries: numbers, quantities in the same unit, and words.

Most answers are decided here, in microseconds. The result is None where algebra or a unit conversion is needed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from engine.mathematics.quantities.numerals import Numeral, numeral_prefix, read_numeral, same_number
from engine.mathematics.quantities.unit_text import Powers, read_unit
from engine.mathematics.quantities.units import read_quantity, same_quantity


class Decision(NamedTuple):
    """Whether one value is correct, and the method of this decision."""

    correct: bool
    method: str


_TEXT_TAIL = re.compile(
    r"^(.*?\S)\s*((?:\\(?:text|mathrm|mbox|textrm|rm)\s*\{[^{}]*\}|\^\s*\{?\s*\\circ\s*\}?)(?:\s*\^\s*\{?\s*-?\d\s*\}?)?)$"
)
_MARKED_UNIT = re.compile(r"\\(?:text|mathrm|mbox|textrm|rm)|[A-Za-z]{2}|\\circ")
_PROSE_TAIL = re.compile(r"^\s+(?:[A-Za-z]{3,}|in|of|is|as)(?:[\s,;:'-]+[A-Za-z]+)*\.?$")
_CHANGES_MEANING = re.compile(
    r"(?i)\b(?:sqrt|pi|sin|cos|tan|log|ln|exp|hundred|thousand|million|billion|trillion|dozen|half|halves|thirds?|quarters?|"
    r"over|times|plus|minus|and|or|not|no|to|mod|choose|through|factorial|squared|cubed|percent|out|with|i|e)\b"
)
_WORDS = re.compile(r"[A-Za-z][A-Za-z\s'.,-]*")
_MATH_WORDS = re.compile(r"(?i)sqrt|pi\b|sin|cos|tan|log|ln|exp|inf|alpha|beta|theta|gamma|lambda")
_LONG_WORD = re.compile(r"[A-Za-z]{4,}")
_CHOICE = re.compile(r"(?:(?:option|choice)\s+)?\(?([A-Z])(?:[).:](?:\s.*)?)?", re.DOTALL)
_UNWRAP = re.compile(r"\\(?:text|mathrm|mbox|textrm|textbf|mathbf|rm)\s*\{([^{}]*)\}")
_SPACE = re.compile(r"(?<!\d)\s+|\s+(?!\d)")  # "20 4" is not 204
_DEGREE: Powers = read_unit("deg") or ()


def same_plain_value(answer: str, truth: str, rel_tol: float | None) -> Decision | None:
    """Compare two cleaned texts as values of mathematics.

    A unit or a noun on one side only is ignored ("5 cm" is 5, "33 ways" is 33); units on both sides must
    agree.
    """
    left, right = read_numeral(answer), read_numeral(truth)
    if left and right:
        return _numbers(left, right, rel_tol)
    if answer == truth:
        return Decision(True, "text")
    (answer_core, answer_unit), (truth_core, truth_unit) = without_tails(answer, truth)
    left, right = left or read_numeral(answer_core), right or read_numeral(truth_core)
    if left and right and (answer_unit == truth_unit or not answer_unit or not truth_unit):
        decision = _numbers(left, right, rel_tol)
        if decision.correct or _DEGREE not in (answer_unit, truth_unit):
            return decision
    return _words(answer, truth, truth_is_number=right is not None)


def same_plain_quantity(answer: str, truth: str, rel_tol: float | None) -> Decision | None:
    """Compare two cleaned texts as quantities of physics, if both have the same unit or none."""
    right = read_quantity(truth)
    if right is None:
        return _words(answer, truth, truth_is_number=False)
    left = read_quantity(answer)
    if left is None or left.number is None or right.number is None or left.unit != right.unit:
        return None
    return Decision(same_quantity(left, right, rel_tol), "units" if right.unit else "numeric")


def without_tails(answer: str, truth: str) -> tuple[tuple[str, Powers], tuple[str, Powers]]:
    """Split both texts into value and unit (see ``without_tail``)."""
    left, right = without_tail(answer), without_tail(truth)
    if left[1] and not right[1]:
        right = without_tail(truth, expected=left[1])
    elif right[1] and not left[1]:
        left = without_tail(answer, expected=right[1])
    return left, right


def without_tail(text: str, expected: Powers = ()) -> tuple[str, Powers]:
    """Split a text into the value and the unit after it; a noun after the value is dropped.

    "5 m" is not split, because m may be an unknown, unless the other side is in metres (``expected``).
    """
    prefix = numeral_prefix(text)
    if prefix and prefix[1].strip():
        rest = prefix[1]
        head = text[: len(text) - len(rest)].rstrip()
        unit = read_unit(rest)
        if unit and (unit == expected or _MARKED_UNIT.search(rest)):
            return head, unit
        words = _UNWRAP.sub(r" \1", rest)
        if _PROSE_TAIL.match(words) and not _CHANGES_MEANING.search(words):
            return head, ()
    tail = _TEXT_TAIL.match(text) if text.endswith(("}", "circ")) or text[-1:].isdigit() else None
    if tail and not _CHANGES_MEANING.search(_UNWRAP.sub(r"\1", tail[2])):
        return tail[1], read_unit(tail[2]) or ()
    return text, ()


def as_words(text: str) -> str:
    """A text as lower-case words without \\text{} and punctuation; a single letter keeps its case."""
    text = " ".join(re.sub(r"[^\w\s]", " ", _UNWRAP.sub(r"\1", text)).split())
    return text if len(text) == 1 else text.casefold()


def written_alike(answer: str, truth: str) -> bool:
    """Compare answers as text without spaces; words are compared without case and punctuation."""
    answer, truth = _UNWRAP.sub(r"\1", answer), _UNWRAP.sub(r"\1", truth)
    if _WORDS.fullmatch(truth) and _WORDS.fullmatch(answer):
        return as_words(answer) == as_words(truth)
    return _SPACE.sub("", answer.strip()) == _SPACE.sub("", truth.strip()) != ""


def _numbers(answer: Numeral, truth: Numeral, rel_tol: float | None) -> Decision:
    method = "rational"
    if answer.rounded or truth.rounded or rel_tol is not None:
        method = "numeric"
    elif answer.value.denominator == truth.value.denominator == 1:
        method = "integer"
    return Decision(same_number(answer, truth, rel_tol), method)


def _words(answer: str, truth: str, truth_is_number: bool) -> Decision | None:
    plain_answer, plain_truth = _UNWRAP.sub(r"\1", answer).strip(), _UNWRAP.sub(r"\1", truth).strip()
    if truth_is_number:
        is_word = _WORDS.fullmatch(plain_answer) and _LONG_WORD.search(plain_answer)
        return Decision(False, "text") if is_word and not _MATH_WORDS.search(plain_answer) else None
    if _WORDS.fullmatch(plain_truth) and written_alike(plain_answer, plain_truth):
        return Decision(True, "text")
    if len(plain_truth) == 1 and plain_truth.isupper():
        choice = _CHOICE.fullmatch(plain_answer)
        if choice:
            return Decision(choice[1] == plain_truth, "text")
    if _WORDS.fullmatch(plain_truth) and _LONG_WORD.search(plain_truth) and not _MATH_WORDS.search(plain_truth):
        return Decision(written_alike(plain_answer, plain_truth), "text")
    return None
