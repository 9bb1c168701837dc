"""What kind of answers a dataset has, from all of its right answers, and thereby how answers are compared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from engine.answers.by_kind import alternatives, plain, read_json
from engine.answers.dates import plain_date, read_date
from engine.answers.how_compared import KINDS, HowCompared, Kind
from engine.answers.normalise import plainly_written
from engine.answers.verify import is_value, verify_answer
from engine.answers.words import half_width, read_choices
from engine.errors import InputError
from engine.mathematics.parsing.notation import clean
from engine.mathematics.parsing.parser import parse_expression
from engine.mathematics.parsing.tree import FormulaSyntaxError
from engine.mathematics.quantities.units import read_quantity

MOST = 0.95
"""A dataset is of a kind if at least this share of its answers is. The others are compared as texts."""
_MOST_LABELS, _LONGEST_LABEL = 500, 80
_REPEATS = 2
"""Labels occur at least so many times in the mean."""
_LARGEST_TOLERANCE = 0.5
_LONG_TEXT = 20
"""Words of a mean answer from which on no reply will be equal to it."""
_UNIT_NUMBER = re.compile(
    r"[+−-]?(?:(?:US|R)?\$\s?|[€£¥￥₹]\s?)?[\d.,]+(?:[eE][+-]?\d+)?\s*(?:[%‰€$£°]|°?[^\W\d_][\w/^·°µ-]*)?"
)
_WITH_UNIT = re.compile(r"[+-]?[\d.,]+\s+[^\W\d_]\S*")
_RANGE = re.compile(r"\d+\s*[-–]\s*\d+")
"""A range, a score or a part of a code; no answer is a difference that is left to compute."""
_MOLECULE = re.compile(r"(?=.*\d)(?:[A-Z][a-z]?\d{0,3}|[()]){2,}", re.ASCII)
_LONG_WORD = re.compile(r"[^\W\d_]{3,}|[\u2e80-\U0003ffff]")
_CODE = re.compile(
    r"0\d+|\d+(?:\.\d+){2,}|\d+(?:-\d+){2,}|\d+(?:[Xx])?-[\dXx]+-[\dXx-]+|\d+E\d+|\d{4}/\d{2,4}", re.ASCII
)
"""A part of an identifier: a leading zero, several points or hyphens, an E between digits, a fiscal year."""
_MOST_DIGITS = 60
_DECIMALS = re.compile(r"\d+\.(\d+)", re.ASCII)
_SQL = re.compile(r"\s*(?:select|with|insert|update|delete)\s.*\b(?:from|into|set|select)\b", re.IGNORECASE | re.DOTALL)
_OPERATOR = re.compile(r"\\[A-Za-z]|[\^=+*/√π∞]|\d\s*-\s*[\da-z(]|[(\[]\s*-?\d|\d[a-z]\b")
"""What only a formula has, and no bare number or name."""


def how_compared(answers: Sequence[str], kind: str | None = None, *, are_codes: bool | None = None) -> HowCompared:
    """How the answers of a dataset are compared.

    Args:
        answers: the right ones of all rows.
        kind: as the user says, such as ``text`` or ``number:2%``; None: found out.
        are_codes: whether answers that look like numbers are identifiers; None: found out.

    Raises:
        InputError: an unknown kind or tolerance, or answers that it does not fit.
    """
    name, colon, after = (kind or kind_of(answers, are_codes)).partition(":")
    if name not in KINDS:
        raise InputError(f"Unknown comparison {kind!r}", fix=f"Use one of {', '.join(KINDS)}.")
    tolerance = _tolerance(name, after) if colon else None
    if kind is None and name in _FITS:  # the others are compared as texts
        answers = list(filter(_FITS[name], answers)) or answers
    if name == "label":
        return HowCompared(kind="label", labels=labels_of(answers))
    if name == "date":
        how = HowCompared(kind="date", day_first=_is_day_first(answers))
    elif name == "number":
        answers = [half_width(answer) for answer in answers]
        how = HowCompared(kind="number", tolerance=tolerance)
    elif name in ("json", "list"):
        values = [value if isinstance(value, list) else [value] for value in map(read_json, answers)]
        objects = [item for items in values for item in items if isinstance(item, dict)]
        keys = dict.fromkeys(key for item in objects for key in item)
        how = HowCompared(kind="json" if name == "json" else "list", keys=tuple(keys))
    else:
        how = HowCompared(kind=name)  # type: ignore[arg-type]
    check_truths(answers, how)
    return how


def labels_of(answers: Iterable[str]) -> tuple[str, ...]:
    """The labels among answers, each as it is first written, sorted."""
    answers = list(answers)
    exact = not are_told_apart(answers)
    written: dict[str, str] = {}
    for answer in answers:
        written.setdefault(answer if exact else plain(answer), answer)
    return tuple(sorted(written.values()))


def are_told_apart(labels: Iterable[str]) -> bool:
    """Whether labels differ, and are not empty, after their signs and their case are taken off."""
    spelled: dict[str, set[str]] = {}
    for label in set(labels):
        spelled.setdefault(plain(label), set()).add(re.sub(r"^\W+|\W+$", "", label).casefold())
    return "" not in spelled and all(len(spellings) == 1 for spellings in spelled.values())


def kind_of(answers: Sequence[str], are_codes: bool | None = None) -> Kind:
    """The kind of most answers of a dataset."""
    are_codes = are_identifiers(answers) if are_codes is None else are_codes
    different = list(dict.fromkeys(answers))
    by_value: tuple[Kind, ...] = ("json", "list", "date") if are_codes else ("json", "list", "number", "date")
    for kind in by_value:
        if _most(answers, different, _FITS[kind]):
            return kind
    if _most(answers, different, _are_choices) and any(len(read_choices(answer) or ()) > 1 for answer in different):
        return "set"
    if are_labels(answers):
        return "label"
    if _most(answers, different, lambda answer: _SQL.match(answer) is not None):
        return "sql"
    if not are_codes and are_formulas(answers):
        return "formula"
    return "text"


def are_labels(answers: Sequence[str]) -> bool:
    """Whether answers are values that repeat: each twice in the mean. Some may occur once."""
    counts = Counter(map(plain, answers) if are_told_apart(answers) else answers)
    repeat = 1 < len(counts) <= _MOST_LABELS and _REPEATS * len(counts) <= len(answers)
    return repeat and _most(answers, [*dict.fromkeys(answers)], _is_label)


def are_identifiers(answers: Sequence[str]) -> bool:
    """Whether answers are codes that only look like numbers: versions, clauses, ISBN, addresses, fiscal years.

    Of decimals with one or two digits, a zero at the end belongs to the identifier: 3.9, 3.10. Where some have more
    digits or a zero first, they are quantities: 1.20, 0.385, 7.05.
    """
    bare = [answer.strip() for answer in answers if re.search(r"\d", answer)]
    few = (1 - MOST) * len(bare)  # one fraction as 2016/2017 among numbers is no code
    if sum(_CODE.fullmatch(text) is not None for text in bare) > few:
        return True
    decimals = [match[1] for match in map(_DECIMALS.fullmatch, bare) if match]
    ends_with_zero = sum(decimal.endswith("0") and len(decimal) > 1 for decimal in decimals)
    of_quantities = sum(len(decimal) > 2 or re.match(r"0\d", decimal) is not None for decimal in decimals)
    return len({len(decimal) for decimal in decimals}) > 1 and ends_with_zero > few >= of_quantities


def are_formulas(answers: Sequence[str]) -> bool:
    """Whether most answers are numbers or formulas, and some are more than a name."""
    different = list(dict.fromkeys(answers))
    return any(re.search(r"\d|\\[A-Za-z]", answer) for answer in different) and _most(answers, different, is_formula)


def show_mathematics(texts: Iterable[str]) -> bool:
    """Whether some texts have signs of mathematics: TeX, operators, roots."""
    return any(_OPERATOR.search(text) for text in texts)


def is_formula(answer: str) -> bool:
    """Whether an answer is a number without a unit, or a formula."""
    bare = answer.strip().strip("$")
    if not bare or not is_value(bare) or any(form.fullmatch(bare) for form in (_WITH_UNIT, _RANGE, _MOLECULE)):
        return False
    if "\\" in bare:
        return True
    if _LONG_WORD.search(bare):
        return False
    try:
        parse_expression(bare)
    except FormulaSyntaxError:
        return bool(re.fullmatch(r"[\w\s.,:;()\[\]{}+*/^=<>|-]+", bare)) and any(char.isdigit() for char in bare)
    return True


def check_truths(answers: Sequence[str], how: HowCompared) -> None:
    """Raise ``InputError`` if answers cannot be compared in this way."""
    for answer in dict.fromkeys(answers):
        if how.kind == "json" and not isinstance(read_json(answer), dict):
            raise InputError(f"--compare json: the answer {answer[:60]!r} is no JSON object")
        if how.kind == "number" and not (is_value(answer) and any(map(str.isnumeric, answer))):
            raise InputError(f"--compare number: the answer {answer[:60]!r} is no number")
        if how.kind == "date" and read_date(answer, how.day_first) is None:
            raise InputError(f"--compare date: the answer {answer[:60]!r} is no date with day, month and year")
        if how.kind == "formula" and not is_value(answer):
            raise InputError(f"--compare formula: the answer {answer[:60]!r} is no formula")


def described(how: HowCompared) -> str:
    """The comparison in a few words, for the start of a run."""
    if how.kind == "rubric":
        return "judged by the rubric of each row"
    if how.kind == "label":
        shown = ", ".join(how.labels[:6]) + (", ..." if len(how.labels) > 6 else "")
        return f"compared as one of {len(how.labels)} labels ({shown})"
    names = {
        "choice": "one choice of the options",
        "number": "numbers" + (f", right within {100 * how.tolerance:g} %" if how.tolerance else ""),
        "formula": "formulas",
        "text": "short texts, equal but for case and punctuation",
        "contains": "texts that the answer has to contain",
        "list": "lists in their order",
        "set": "lists in any order",
        "json": "JSON objects, field by field",
        "date": "dates" + (", day first" if how.day_first else ""),
        "sql": "SQL, equal but for case, spaces and the final semicolon",
    }
    return f"compared as {names[how.kind]}"


def remark(answers: Sequence[str], how: HowCompared) -> str:
    """What a user should know about answers that are compared in this way; empty if there is nothing."""
    words = sum(len(answer.split()) for answer in answers) / max(1, len(answers))
    if how.kind == "text" and words > _LONG_TEXT:
        return (
            f"the right answers are long texts ({words:.0f} words in the mean), which no reply will equal: use a "
            "column `rubric` with what a judge looks for, or --compare contains"
        )
    if how.kind == "text" and len(answers) > 1 and len(set(answers)) == 1:
        return f"all answers are {answers[0][:30]!r}, so there is nothing to learn"
    if how.kind == "text" and are_identifiers(answers) and _most(answers, [*dict.fromkeys(answers)], _is_number):
        return "the numbers have the form of identifiers, as 3.10 and 007, and are compared as texts (--compare number)"
    return ""


def _most(answers: Sequence[str], different: Sequence[str], fits: Callable[[str], bool]) -> bool:
    """Whether most answers fit. Of many, the first ones that do not fit end the search."""
    counts = Counter(answers)
    missed, allowed = 0, (1 - MOST) * len(answers)
    for answer in different:
        if not fits(answer):
            missed += counts[answer]
            if missed > allowed or len(answers) < 1 / (1 - MOST):
                return False
    return True


def _tolerance(kind: str, text: str) -> float:
    """The relative error that ``number:2%`` allows: 0.02."""
    match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?)\s*%", text.strip())
    value = float(match[1]) / 100 if match else 0.0
    if kind != "number" or not 0 < value <= _LARGEST_TOLERANCE:
        raise InputError(
            f"--compare {kind}:{text[:40]} is no tolerance",
            fix="Write number:2% for answers that may be wrong by 2 percent of the truth; up to 50% is possible.",
        )
    return value


def _reads_as_number(answer: str) -> bool:
    """Whether an answer is a number, also with a word after it or with a unit of several parts: ``3.2·10^4 kg m/s``."""
    if plain_date(answer):
        return False
    if _UNIT_NUMBER.fullmatch(answer):
        return True
    quantity = read_quantity(plainly_written(clean(answer), reads_times=False))
    return quantity is not None and quantity.number is not None and not quantity.prose


def _is_label(answer: str) -> bool:
    return len(answer) <= _LONGEST_LABEL and len(alternatives(answer)) == 1


def _are_choices(answer: str) -> bool:
    """Whether an answer names choices in their order. In another order, as BDAC, the order may be what is asked for."""
    choices = read_choices(answer) if half_width(answer).isupper() else None
    return choices is not None and [letter for letter in half_width(answer) if letter in choices] == sorted(choices)


def _is_number(answer: str) -> bool:
    answer = half_width(answer)
    if answer.isascii() and answer.isdecimal() and len(answer) <= _MOST_DIGITS:
        return True  # as what follows finds, in a hundredth of the time
    if not _reads_as_number(answer):
        return False
    try:
        return verify_answer(answer, answer, comparison="measured").correct is True
    except InputError:
        return False


_FITS: Mapping[str, Callable[[str], bool]] = {
    "json": lambda answer: isinstance(read_json(answer), dict),
    "list": lambda answer: isinstance(read_json(answer), list),
    "number": _is_number,
    "date": lambda answer: read_date(answer) is not None,
    "formula": is_value,
    "label": _is_label,
}
"""Kind -> whether an answer is of it."""


def _is_day_first(answers: Sequence[str]) -> bool:
    """Whether some answer can only be read with the day first, as 31/12/2026."""
    numbers = [re.match(r"(\d{1,2})[./-](\d{1,2})[./-]\d{2,4}", answer) for answer in answers]
    return any(match is not None and int(match[1]) > 12 for match in numbers)
