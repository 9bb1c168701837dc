"""Whether the answers of rows are numbers or formulas, so that rows that name no task are of mathematics.

Only the registry imports this module: the digest of a task covers what its package imports, and most tasks compare no
formulas.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from engine.answers.decimal_comma import uses_decimal_commas
from engine.answers.verify import is_value
from engine.mathematics.parsing.parser import parse_expression
from engine.mathematics.parsing.tree import FormulaSyntaxError
from engine.tasks.rows import ANSWER_FIELDS, TEXT_FIELDS, after_mark

_WITH_UNIT = re.compile(r"[+-]?[\d.,]+\s+[^\W\d_]\S*")
"""A number and a unit, such as ``12.5 kg``."""
_PLAIN_NUMBER = re.compile(r"[+−-]?[\d.,]+\s?%?")
_RANGE = re.compile(r"\d+\s*[-–]\s*\d+")
"""A range, a score or a part of a code; no answer is a difference that is left to compute."""
_LONG_WORD = re.compile(r"[^\W\d_]{3,}|[\u2e80-\U0003ffff]")
"""A word; one of Chinese or Japanese may have one character."""


def are_of_mathematics(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the answers of rows are numbers or formulas; not if all are numbers with decimal commas, as in 1.234,5.

    In mathematics 3,14 may be two numbers.
    """
    answers = [str(row[name]).strip() for row in rows for name in ANSWER_FIELDS if row.get(name) is not None]
    has_commas = all(map(_PLAIN_NUMBER.fullmatch, answers)) and uses_decimal_commas(answers)
    return not has_commas and all(map(_has_formula, rows))


def _has_formula(row: Mapping[str, Any]) -> bool:
    """Whether the answer of a row is a number or a formula; also of a row whose only fields are the text and the id."""
    answer = next((row[name] for name in ANSWER_FIELDS if row.get(name) is not None), None)
    if answer is None:
        return row.keys() <= {*TEXT_FIELDS, *ANSWER_FIELDS, "id", "task"}
    if isinstance(answer, bool) or not isinstance(answer, int | float | str):
        return False
    return _is_formula(after_mark(str(answer)))


def _is_formula(answer: str) -> bool:
    bare = answer.strip().strip("$")
    if not bare or not is_value(bare) or _WITH_UNIT.fullmatch(bare) or _RANGE.fullmatch(bare):
        return False
    if "\\" in bare:
        return True
    if _LONG_WORD.search(bare):
        return False
    try:
        parse_expression(bare)
    except FormulaSyntaxError:
        return bool(re.fullmatch(r"[\d\s.,:;()\[\]{}+*/^=<>|-]+", bare)) and any(char.isdigit() for char in bare)
    return True
