"""The tests of a program as JSON data, and how an assert statement becomes such a test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Literal, TypedDict

from engine.reading.python_syntax import parse
from engine.tasks.code.literals import constant, from_literal, to_literal
from engine.tasks.code.testing.comparison import Comparison


class CodeTest(TypedDict, total=False):
    """One test. What is expected is never sent to the program's process.

    A test of kind ``call`` passes if ``fn(*args, **kwargs)`` returns ``expected``; ``args``, ``kwargs`` and
    ``expected`` are texts of Python literals, and ``fn`` is a name, or ``Class.method`` (the class is instantiated
    without arguments). ``cmp`` is ``exact`` (the default: Python's ``==`` on plain values), ``sequence`` (the same,
    with tuples equal to lists) or ``float`` (numbers within 1e-6, relative or absolute; where an integer is expected,
    rounding noise only).

    A test of kind ``stdin`` passes if the whole program prints ``expected`` when it reads ``stdin``. ``cmp`` is
    ``lines`` (the default: whitespace at line ends is ignored), ``exact`` (except line endings and newlines at the
    end), ``tokens`` (all whitespace is equal) or ``float`` (tokens, numbers as above).

    A test of kind ``assert`` passes if ``setup`` and then ``code`` raise nothing, for what a call cannot express.
    ``assert f(...) == literal`` is split: the program's process evaluates the call, whose arguments may be any
    expressions, and this process compares. ``setup`` runs after the program then. Any other code runs in a second
    process without the program. There the program's functions are remote calls: plain values are sent and come back,
    and lists, dicts and sets that a call changes are changed in the test too. A test can expect an exception: it
    arrives with its message, as the built-in class that it is of. In both forms the program cannot reach the
    comparison.
    """

    kind: Literal["call", "stdin", "assert"]
    fn: str
    args: str
    kwargs: str
    expected: str
    cmp: Comparison
    stdin: str
    code: str
    setup: str


def from_assert(text: str, setup: str = "") -> CodeTest:
    """An assert statement as a test.

    ``assert f(literals) == literal``, in either order, becomes a test of kind ``call``, whose expected value is
    never sent to the program's process. Every other statement becomes a test of kind ``assert``.

    Raises:
        ValueError: as for :func:`statements`.
    """
    text = text.strip().replace("\r\n", "\n")
    statements(text)
    row: CodeTest = {"kind": "assert", "code": text}
    if setup.strip():
        row["setup"] = setup.replace("\r\n", "\n")
        return row
    for call, expected in compared_with_literals(text):
        try:
            return _call_row(call, expected)
        except ValueError:
            continue
    return row


def compared_with_literals(code: str) -> Iterator[tuple[ast.expr, Any]]:
    """Of ``assert A == B``, each side with the value of the other one, if that is a literal. Nothing of other code."""
    try:
        body = parse(code.strip()).body
    except ValueError:
        return
    condition = body[0].test if len(body) == 1 and isinstance(body[0], ast.Assert) else None
    if not isinstance(condition, ast.Compare) or len(condition.ops) != 1 or not isinstance(condition.ops[0], ast.Eq):
        return
    sides = [condition.left, condition.comparators[0]]
    for expression, answer in (sides, sides[::-1]):
        try:
            value = constant(answer)
        except ValueError:
            continue
        yield expression, value


def statements(code: str) -> list[ast.stmt]:
    """The statements of a test that is code.

    Raises:
        ValueError: it is not valid Python, or only defines and imports, so that every program would pass it.
    """
    body = parse(code).body
    if not any(map(_tests, body)):
        raise ValueError("a test without a statement that is executed: every program would pass it")
    return body


def _tests(node: ast.stmt) -> bool:
    """Whether a statement does more than define, import, document or compare."""
    if isinstance(node, ast.ClassDef):
        return any(map(_tests, node.body))
    if isinstance(node, ast.Expr):  # "add(1, 2) == 3" without assert cannot fail
        return not isinstance(node.value, ast.Compare) and any(isinstance(part, ast.Call) for part in ast.walk(node))
    return not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Import | ast.ImportFrom)


def as_statement(row: CodeTest) -> str:
    """A test of kind ``call`` or ``assert`` as an assert statement, for prompts."""
    if row["kind"] == "assert":
        return row["code"]
    args = parse(row["args"], "eval").body
    given = [ast.unparse(item) for item in args.elts] if isinstance(args, ast.Tuple) else [f"*{row['args']}"]
    named = [f"{name}={to_literal(value)}" for name, value in from_literal(row.get("kwargs", "{}")).items()]
    return f"assert {row['fn']}({', '.join(given + named)}) == {row['expected']}"


def called_names(row: CodeTest) -> list[str]:
    """The names that a test calls, outermost first."""
    if row["kind"] == "call":
        return [row["fn"]]
    if row["kind"] == "stdin":
        return []
    nodes = ast.walk(parse(row["code"]))
    return [node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]


def _call_row(node: ast.expr, expected: Any) -> CodeTest:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
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
