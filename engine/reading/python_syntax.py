"""Python source as a tree or as a literal's value, from any thread. Nothing of it is run."""

from __future__ import annotations

import ast
import re
import threading
import warnings
from typing import Any, Literal, overload

_FILE = "<text of a model>"
for _category in (SyntaxWarning, DeprecationWarning):  # a text's odd escapes are no news for the terminal
    warnings.filterwarnings("ignore", category=_category, module=re.escape(_FILE))

_ONE_AT_A_TIME = threading.Lock()
"""CPython 3.11 keeps the depth of the tree that it builds in one place for all threads: where another one comes in
between, both fail with ``SystemError: AST constructor recursion depth mismatch``."""


@overload
def parse(source: str, mode: Literal["exec"] = "exec") -> ast.Module: ...
@overload
def parse(source: str, mode: Literal["eval"]) -> ast.Expression: ...
def parse(source: str, mode: Literal["exec", "eval"] = "exec") -> ast.Module | ast.Expression:
    """The tree of a program, or of an expression.

    Args:
        source: Python; the caller bounds its length.
        mode: ``exec`` for a program, ``eval`` for one expression.

    Raises:
        ValueError: it is not Python, or nested too deeply; the message says why.
    """
    try:
        with _ONE_AT_A_TIME:
            tree = ast.parse(source, filename=_FILE, mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # also NUL, half a surrogate pair
        raise ValueError(f"not Python: {str(error)[:200]}") from None
    assert isinstance(tree, ast.Module | ast.Expression)
    return tree


def literal(text: str) -> Any:
    """The value of a literal's text; names are refused and nothing is called.

    Raises:
        ValueError: it is no literal.
    """
    try:
        return ast.literal_eval(parse(text.lstrip(" \t"), "eval"))
    except (TypeError, MemoryError, RecursionError, SyntaxError) as error:
        raise ValueError(f"not a Python literal: {str(error)[:200]}") from None
