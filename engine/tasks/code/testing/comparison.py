"""Compares the values and the output of a program with the expected ones.

All values are plain builtins or fractions, so no ``==`` in this module runs code of the program.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any, Literal

Comparison = Literal["exact", "sequence", "tokens", "lines", "float"]
"""How two values are compared; :class:`engine.tasks.code.test_cases.CodeTest` describes each."""

TOLERANCE = 1e-6
_NOISE = 1e-12
"""Relative tolerance where an integer is expected: 3.0000000000000004 is 3, but 1000000001 is not 1000000007."""
_LONGEST_NUMBER = 400
_NUMBER = re.compile(
    r"[+-]?(?:(?P<whole>[0-9]+)|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)",
    re.IGNORECASE | re.ASCII,
)
"""A number as programs print it. Python's ``float`` also reads ``4_2`` and the digits of other scripts."""


def same_value(got: Any, expected: Any, cmp: Comparison) -> bool:
    """Compare a returned value (decoded, so plain) with the expected one."""
    if cmp == "float":
        return _close(got, expected)
    if cmp == "sequence":
        return bool(_lists(got) == _lists(expected))
    return bool(got == expected)


def same_text(got: str, expected: str, cmp: Comparison) -> bool:
    """Compare printed text with the expected one; ``\\r\\n`` is read as ``\\n``."""
    got, expected = got.replace("\r\n", "\n"), expected.replace("\r\n", "\n")
    if cmp == "tokens":
        return got.split() == expected.split()
    if cmp == "float":
        tokens, wanted = got.split(), expected.split()
        return len(tokens) == len(wanted) and all(map(_close_texts, tokens, wanted))
    if cmp == "lines":
        return _lines(got) == _lines(expected)
    return got.rstrip("\n") == expected.rstrip("\n")


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _lists(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_lists(element) for element in value]
    if isinstance(value, dict):
        return {key: _lists(entry) for key, entry in value.items()}
    return value


def _close(got: Any, expected: Any) -> bool:
    """Whether two values are equal, with a tolerance for numbers, also inside lists, tuples and dicts."""
    if _is_number(got) and _is_number(expected):
        return _close_numbers(got, expected)
    if isinstance(expected, list | tuple):
        return isinstance(got, list | tuple) and len(got) == len(expected) and all(map(_close, got, expected))
    if isinstance(expected, dict):
        return (
            isinstance(got, dict)
            and got.keys() == expected.keys()
            and all(_close(got[key], value) for key, value in expected.items())
        )
    return bool(got == expected)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Fraction)


def _close_numbers(got: Any, expected: Any) -> bool:
    if got == expected:
        return True
    if isinstance(got, int) and isinstance(expected, int):
        return False
    relative = _NOISE if isinstance(expected, int) else TOLERANCE
    try:
        both_nan = math.isnan(got) and math.isnan(expected)
        return both_nan or math.isclose(got, expected, rel_tol=relative, abs_tol=TOLERANCE)
    except OverflowError:  # a number too large for a float
        return False


def _close_texts(got: str, expected: str) -> bool:
    if got == expected:
        return True
    if max(len(got), len(expected)) > _LONGEST_NUMBER:
        return False
    try:
        return _close_numbers(_number(got), _number(expected))
    except ValueError:
        return False


def _number(text: str) -> int | float:
    number = _NUMBER.fullmatch(text)
    if number is None:
        raise ValueError(text)
    return int(text) if number["whole"] else float(text)
