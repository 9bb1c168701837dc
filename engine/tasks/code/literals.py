"""Values and the texts of the Python literals that represent them. Nothing is executed."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from engine.reading.python_syntax import literal

MAX_LITERAL = 1 << 20
"""Longest text of a literal that is read, in characters."""

_MOST_DIGITS = 4000  # longer integers are written in hexadecimal: Python limits the length of decimal ones
_MOST_BITS = 1 << 18  # of an integer that results from constant arithmetic
_MOST_LEVELS = 200

CONSTRUCTORS: dict[str, Callable[..., Any]] = {"set": set, "tuple": tuple, "list": list, "dict": dict}
"""The functions that :func:`constant` evaluates."""


def constant(node: ast.expr, level: int = 0) -> Any:
    """The value of a constant expression: literals, arithmetic on numbers, and calls of ``CONSTRUCTORS``.

    Raises:
        ValueError: it is another kind of expression, or its value is too large.
    """
    if level > _MOST_LEVELS:
        raise ValueError("nested too deeply")
    if isinstance(node, ast.Constant) and node.value is not Ellipsis:
        return node.value
    try:
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            items = [constant(item, level + 1) for item in node.elts]
            return {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)](items)
        if isinstance(node, ast.Dict):
            keys = [constant(key, level + 1) for key in node.keys if key is not None]
            return dict(zip(keys, (constant(value, level + 1) for value in node.values), strict=True))
        if isinstance(node, ast.UnaryOp):
            return _number(_UNARY[type(node.op)](_operand(node.operand, level)))
        if isinstance(node, ast.BinOp):
            return _binary(type(node.op), _operand(node.left, level), _operand(node.right, level))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return CONSTRUCTORS[node.func.id](*(constant(item, level + 1) for item in node.args))
    except (TypeError, KeyError, ArithmeticError) as error:  # unhashable, an unsupported operator or function, 1 / 0
        raise ValueError(f"not a constant: {error}") from None
    raise ValueError(f"not a constant: {type(node).__name__}")


def _operand(node: ast.expr, level: int) -> Any:
    value = constant(node, level + 1)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("arithmetic on something else than numbers")
    return value


def _binary(operator: type[ast.operator], left: Any, right: Any) -> Any:
    if operator is ast.Pow:
        if right < 0 or abs(right) * max(1, math.log2(max(2, abs(left)))) > _MOST_BITS:
            raise ValueError("too large")
        return _number(left**right)
    return _number(_BINARY[operator](left, right))


def _number(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError("too large")
    return value


_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.USub: lambda x: -x, ast.UAdd: lambda x: +x}
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda x, y: x + y,
    ast.Sub: lambda x, y: x - y,
    ast.Mult: lambda x, y: x * y,
    ast.Div: lambda x, y: x / y,
    ast.FloorDiv: lambda x, y: x // y,
    ast.Mod: lambda x, y: x % y,
}


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
