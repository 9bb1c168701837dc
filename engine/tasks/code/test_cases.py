"""Tests of a program as data: what an assert statement calls and expects, as literals that JSON can carry."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any, Literal, TypedDict

from engine.reading.python_syntax import literal, parse

MAX_LITERAL = 1 << 20
"""Characters of a literal's text; a longer one is refused."""

_MOST_DIGITS = 4000  # Python refuses to write longer integers in decimal, and not in hexadecimal
_MOST_BITS = 1 << 18  # of an integer that constant arithmetic may make
_MOST_LEVELS = 200


class CodeTest(TypedDict, total=False):
    """One test.

    ``call``: ``fn(*args, **kwargs)`` gives ``expected``; the three are texts of Python literals. ``stdin``: the
    program reads ``stdin`` and prints ``expected``. ``assert``: ``code`` raises nothing after ``setup``. How a
    value is compared says ``cmp``.
    """

    kind: Literal["call", "stdin", "assert"]
    fn: str
    args: str
    kwargs: str
    expected: str
    cmp: str
    stdin: str
    code: str
    setup: str


def from_assert(text: str, setup: str = "") -> CodeTest:
    """An assert statement as a test.

    ``assert f(literals) == literal``, in either order, is a call that whoever runs it compares outside of the
    program's reach; constant arithmetic and ``set(...)``, ``tuple(...)`` and the like count as literals. Every
    other form stays an assert.

    Raises:
        ValueError: it is not Python.
    """
    text = text.strip().replace("\r\n", "\n")
    body = parse(text).body
    row: CodeTest = {"kind": "assert", "code": text}
    if setup.strip():
        row["setup"] = setup.replace("\r\n", "\n")
    if len(body) != 1 or not isinstance(body[0], ast.Assert) or setup.strip():
        return row
    condition = body[0].test
    if not isinstance(condition, ast.Compare) or len(condition.ops) != 1 or not isinstance(condition.ops[0], ast.Eq):
        return row
    sides = [condition.left, condition.comparators[0]]
    for call, other in (sides, sides[::-1]):
        try:
            return _call_row(call, constant(other))
        except ValueError:
            continue
    return row


def as_statement(row: CodeTest) -> str:
    """A call or assert as the assert statement that a prompt shows."""
    if row["kind"] == "assert":
        return row["code"]
    args = parse(row["args"], "eval").body
    given = [ast.unparse(item) for item in args.elts] if isinstance(args, ast.Tuple) else [f"*{row['args']}"]
    named = [f"{name}={to_literal(value)}" for name, value in from_literal(row.get("kwargs", "{}")).items()]
    return f"assert {row['fn']}({', '.join(given + named)}) == {row['expected']}"


def called_names(row: CodeTest) -> list[str]:
    """The names that a test calls, the outermost first."""
    if row["kind"] == "call":
        return [row["fn"]]
    if row["kind"] == "stdin":
        return []
    nodes = ast.walk(parse(row["code"]))
    return [node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]


def _call_row(node: ast.expr, expected: Any) -> CodeTest:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id in _MAKERS:
        raise ValueError("no call of a function by its name")
    args = tuple(constant(item) for item in node.args)
    kwargs = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError("**kwargs")
        kwargs[keyword.arg] = constant(keyword.value)
    row: CodeTest = {
        "kind": "call",
        "fn": node.func.id,
        "args": to_literal(args),
        "expected": to_literal(expected),
        "cmp": "exact",
    }
    if kwargs:
        row["kwargs"] = to_literal(kwargs)
    return row


# ------------------------------------------------------------------ values of literals


def constant(node: ast.expr, level: int = 0) -> Any:
    """The value of an expression that is a literal, or arithmetic on numbers, or ``set([...])`` and the like.

    Raises:
        ValueError: it is another expression, or too large.
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
            return _MAKERS[node.func.id](*(constant(item, level + 1) for item in node.args))
    except (TypeError, KeyError, ArithmeticError) as error:  # unhashable, an operator that is not here, 1 / 0
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
_MAKERS: dict[str, Callable[..., Any]] = {"set": set, "tuple": tuple, "list": list, "dict": dict}


def to_literal(value: Any) -> str:
    """A plain value as the text of a Python literal that :func:`from_literal` reads back as an equal value.

    Raises:
        ValueError: it holds something that no literal can write (NaN, an object), or is nested too deeply.
    """
    return _text(value, 0)


def _text(value: Any, level: int) -> str:
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
        items = [_text(item, level + 1) for item in (sorted(value, key=repr) if kind is set else value)]
        if kind is tuple:
            return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
        return f"[{', '.join(items)}]" if kind is list else f"{{{', '.join(items)}}}" if items else "set()"
    if kind is dict:
        pairs = (f"{_text(key, level + 1)}: {_text(item, level + 1)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    raise ValueError(f"no literal for a {kind.__name__}")


def from_literal(text: str) -> Any:
    """The value of a literal's text.

    Raises:
        ValueError: it is no literal, or longer than ``MAX_LITERAL``.
    """
    if len(text) > MAX_LITERAL:
        raise ValueError(f"a literal of {len(text)} characters; {MAX_LITERAL} are taken")
    return literal(text)
