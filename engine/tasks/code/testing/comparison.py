"""Compares the values and the output of a program with the expected ones.

All values are plain builtins, decimals or fractions, so no ``==`` in this module runs code of the program.
"""

from __future__ import annotations

import cmath
import math
import re
from collections.abc import Hashable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

from engine.sandbox.inside.wire import refuse_collisions

Comparison = Literal["exact", "sequence", "tokens", "lines", "float", "set"]
"""How two values are compared; the tests in :mod:`.program_tests` describe each."""

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
    """Compare a returned value (decoded, so plain) with the expected one.

    Raises:
        MalformedError: many elements share one hash value.
    """
    try:
        return _same_value(got, expected, cmp)
    except TypeError:  # views of dicts can be compared with sets only if their elements are hashable
        return False


def _same_value(got: Any, expected: Any, cmp: Comparison) -> bool:
    if cmp == "exact":
        return bool(got == expected)
    if cmp == "sequence":
        return bool(_lists(got) == _lists(expected))
    if cmp == "float":
        return _close(got, expected)
    if cmp == "set":
        return _is_container(got) and _is_container(expected) and _elements(got) == _elements(expected)
    if isinstance(got, str) and isinstance(expected, str):
        return same_text(got, expected, cmp)
    return False


def same_text(got: str, expected: str, cmp: Comparison) -> bool:
    """Compare printed text with the expected one; ``\\r\\n`` is read as ``\\n``."""
    got, expected = got.replace("\r\n", "\n"), expected.replace("\r\n", "\n")
    if cmp == "tokens":
        return got.split() == expected.split()
    if cmp == "float":
        return _close_tokens(got.split(), expected.split())
    if cmp == "set":
        return set(_lines(got)) == set(_lines(expected))
    if cmp == "lines":
        return _lines(got) == _lines(expected)
    return got.rstrip("\n") == expected.rstrip("\n")


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _lists(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_lists(each) for each in value]
    if isinstance(value, dict):
        return {key: _lists(each) for key, each in value.items()}
    return value


def _close(got: Any, expected: Any) -> bool:
    """Whether two values are equal, with a tolerance for numbers, also inside lists, tuples and dicts."""
    if _is_number(got) and _is_number(expected):
        return _close_numbers(got, expected)
    if isinstance(expected, list | tuple):
        return (
            isinstance(got, list | tuple)
            and len(got) == len(expected)
            and all(_close(one, other) for one, other in zip(got, expected, strict=True))
        )
    if isinstance(expected, dict):
        return (
            isinstance(got, dict)
            and got.keys() == expected.keys()
            and all(_close(got[key], value) for key, value in expected.items())
        )
    return bool(got == expected)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | complex | Decimal | Fraction)


def _close_numbers(got: Any, expected: Any) -> bool:
    if got == expected:
        return True
    if isinstance(got, int) and isinstance(expected, int):
        return False
    relative = _NOISE if isinstance(expected, int) else TOLERANCE
    try:
        if isinstance(got, complex) or isinstance(expected, complex):
            if not (cmath.isfinite(got) and cmath.isfinite(expected)):  # inf is near to no other number
                return False
            return bool(abs(got - expected) <= max(TOLERANCE, relative * abs(expected)))
        if isinstance(got, Decimal | Fraction) and math.isinf(float(got)):  # finite, but too large for a float
            return False
        both_nan = math.isnan(got) and math.isnan(expected)
        return both_nan or math.isclose(got, expected, rel_tol=relative, abs_tol=TOLERANCE)
    except OverflowError:  # a number too large for a float
        return False


def _close_tokens(got: list[str], expected: list[str]) -> bool:
    return len(got) == len(expected) and all(
        one == other or _close_texts(one, other) for one, other in zip(got, expected, strict=True)
    )


def _close_texts(got: str, expected: str) -> bool:
    if max(len(got), len(expected)) > _LONGEST_NUMBER:
        return False
    try:
        return _close_numbers(_number(got), _number(expected))
    except ValueError:
        return False


def _number(text: str) -> int | float:
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return int(text) if found["whole"] else float(text)


def _is_container(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset | dict)


def _elements(value: Any) -> frozenset[Hashable]:
    """The elements of a container; the pairs of a dict, which differ from the elements of all other containers."""
    frozen = [_frozen(each) for each in value]
    if isinstance(value, dict):
        frozen = [("pair", key, _frozen(each)) for key, each in value.items()]
    refuse_collisions(frozen)
    return frozenset(frozen)


def _frozen(value: Any) -> Hashable:
    if isinstance(value, list | tuple):
        return ("sequence", tuple(_frozen(each) for each in value))
    if isinstance(value, set | frozenset):
        return frozenset(_frozen(each) for each in value)
    if isinstance(value, dict):
        return ("dict", frozenset((key, _frozen(each)) for key, each in value.items()))
    return value  # type: ignore[no-any-return]
