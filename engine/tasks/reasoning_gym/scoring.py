"""The worker's side: scores one answer. The scorers evaluate text of a model, so ``eval`` is restricted here."""

from __future__ import annotations

import ast
import builtins
import json
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from engine.reading.python_syntax import parse

_FUNCTIONS = frozenset({"abs", "min", "max", "round", "int", "float", "sqrt", "cbrt", "root", "Rational"})
_NODES = (
    *(ast.Expression, ast.Constant, ast.Name, ast.Load, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.keyword),
    *(ast.UnaryOp, ast.BinOp, ast.Call, ast.unaryop, ast.operator),
)

_eval = builtins.eval


def score(payload: dict[str, Any]) -> dict[str, Any]:
    """Score an answer.

    Args:
        payload: ``answer``; the entry as JSON: ``question``, ``truth``, ``metadata``; and ``generator``, ``config``,
            ``index``, from which it is generated again, since JSON does not keep all types of the metadata.

    Returns:
        ``score``.
    """
    dataset = _dataset(payload["generator"], json.dumps(payload["config"], sort_keys=True))
    entry = dataset[payload["index"]]
    if entry["question"] != payload["question"]:  # some generators depend on the hash seed of the process
        entry = {"question": payload["question"], "answer": payload["truth"], "metadata": payload["metadata"]}
    builtins.eval = _restricted_eval
    try:
        return {"score": float(dataset.score_answer(payload["answer"], entry))}
    finally:
        builtins.eval = _eval


def load(_: object) -> bool:
    """Import the package."""
    import reasoning_gym  # noqa: F401 - optional, and slow to import

    return True


@lru_cache(maxsize=64)
def _dataset(generator: str, config: str) -> Any:
    return sys.modules["reasoning_gym"].create_dataset(generator, **json.loads(config))


def _restricted_eval(
    source: Any, variables: Mapping[str, Any] | None = None, local: Mapping[str, Any] | None = None
) -> Any:
    """``eval`` of literals, arithmetic and mathematical functions; anything else is an error."""
    import sympy  # loaded with the package

    names = {**(variables or {}), **(local or {})}
    if not isinstance(source, str):
        raise ValueError("only text is evaluated")
    tree = parse(source.strip(), "eval")
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise ValueError(f"not allowed in an answer: {type(node).__name__}")
        if isinstance(node, ast.Name):
            value = names.get(node.id)
            is_class = isinstance(value, type) and issubclass(value, sympy.Basic)
            if not (is_class or isinstance(value, sympy.Basic) or node.id in _FUNCTIONS):
                raise ValueError(f"not allowed in an answer: {node.id}")
    return _eval(compile(tree, "<answer>", "eval"), dict(variables or {}), dict(local or {}))
