"""Values and the texts of the Python literals that represent them. Nothing is executed."""

from __future__ import annotations

import ast
import math
from typing import Any

from engine.reading.python_syntax import literal

MAX_LITERAL = 1 << 20
"""Longest text of a literal that is read, in characters."""

_MOST_DIGITS = 4000  # longer integers are written in hexadecimal: Python limits the length of decimal ones
_MOST_LEVELS = 200


def constant(node: ast.expr) -> Any:
    """The value of an expression that is a literal.

    Raises:
        ValueError: it is another kind of expression.
    """
    try:
        return ast.literal_eval(node)
    except (TypeError, SyntaxError, RecursionError, MemoryError) as error:  # TypeError: an unhashable key
        raise ValueError(f"not a literal: {error}") from None


def to_literal(value: Any, level: int = 0) -> str:
    """The text of a Python literal that :func:`from_literal` reads as an equal value.

    Raises:
        ValueError: the value contains something without a literal (NaN, an object), or is nested too deeply.
    """
    if level > _MOST_LEVELS:
        raise ValueError("nested too deeply")
    kind = type(value)
    if kind is int:
        return str(value) if value.bit_length() < 3 * _MOST_DIGITS else hex(value)
    if kind is float:
        if math.isnan(value):
            raise ValueError("NaN has no literal")
        return repr(value) if math.isfinite(value) else "1e999" if value > 0 else "-1e999"
    if value is None or kind in (bool, str, bytes):
        return repr(value)
    if kind in (list, tuple, set):
        items = [to_literal(item, level + 1) for item in (sorted(value, key=repr) if kind is set else value)]
        if kind is tuple:
            return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
        return f"[{', '.join(items)}]" if kind is list else f"{{{', '.join(items)}}}" if items else "set()"
    if kind is dict:
        pairs = (f"{to_literal(key, level + 1)}: {to_literal(item, level + 1)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    raise ValueError(f"no literal for a {kind.__name__}")


def from_literal(text: str) -> Any:
    """The value of the text of a literal.

    Raises:
        ValueError: the text is not a literal, or longer than ``MAX_LITERAL``.
    """
    if len(text) > MAX_LITERAL:
        raise ValueError(f"a literal of {len(text)} characters; {MAX_LITERAL} are taken")
    return literal(text)
