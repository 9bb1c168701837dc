"""Thread-safe parsing of Python source and literals. Nothing is executed."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import threading
import warnings
from typing import Any, Literal, overload

_FILE = "<text of a model>"
for _category in (SyntaxWarning, DeprecationWarning):  # warnings about invalid escapes in model text are not shown
    warnings.filterwarnings("ignore", category=_category, module=re.escape(_FILE))

_PARSER_LOCK = threading.Lock()
"""CPython 3.11 keeps the recursion depth of ``ast.parse`` in one variable for all threads; concurrent calls fail with
``SystemError: AST constructor recursion depth mismatch``."""


@overload
def parse(source: str, mode: Literal["exec"] = "exec") -> ast.Module: ...
@overload
def parse(source: str, mode: Literal["eval"]) -> ast.Expression: ...
def parse(source: str, mode: Literal["exec", "eval"] = "exec") -> ast.Module | ast.Expression:
    """Parse a program or an expression.

    Args:
        source: Python source; the caller limits its length.
        mode: ``exec`` for a program, ``eval`` for one expression.

    Raises:
        ValueError: the source is not valid Python, or nested too deeply.
    """
    try:
        with _PARSER_LOCK:
            tree = ast.parse(source, filename=_FILE, mode=mode)
    except SyntaxError as error:
        raise ValueError(f"not Python: {error.msg[:200]}, line {error.lineno}") from None
    except (ValueError, RecursionError, MemoryError) as error:  # ValueError: NUL, surrogates
        raise ValueError(f"not Python: {str(error)[:200]}") from None
    assert isinstance(tree, ast.Module | ast.Expression)
    return tree


def literal(text: str) -> Any:
    """The value of a literal. Names and calls are refused.

    Raises:
        ValueError: the text is not a literal.
    """
    try:
        return ast.literal_eval(parse(text.lstrip(" \t"), "eval"))
    except (TypeError, MemoryError, RecursionError, SyntaxError) as error:
        raise ValueError(f"not a Python literal: {str(error)[:200]}") from None


def unbound_names(source: str) -> set[str]:
    """The names that a program reads and neither it nor Python binds; none if it is not valid Python."""
    try:
        with _PARSER_LOCK:
            tables = [symtable.symtable(source, _FILE, "exec")]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    read: set[str] = set()
    bound = set(dir(builtins)) | {"__name__", "__file__", "__doc__"}
    for table in tables:
        tables.extend(table.get_children())
        for symbol in table.get_symbols():
            if table is tables[0] or symbol.is_global():
                is_bound = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
                (bound if is_bound else read).add(symbol.get_name())
    return read - bound
