"""The code that a problem gives to the solver, and the names that programs may use because of it."""

from __future__ import annotations

import ast
import importlib
from functools import lru_cache

from engine.reading.python_syntax import unbound_names
from engine.records import Problem
from engine.tasks.code.facts import facts_of
from engine.tasks.code.reply import defined_names, extract, parse_program, stub_indentation

_HARNESS = (
    *("collections", "typing", "math", "itertools", "functools", "heapq", "bisect", "re", "string", "random"),
    *("operator", "copy", "fractions", "statistics", "datetime", "time", "sys"),
)
"""Modules whose names exist where programs with starter code are run by its authors: LeetCode, the harness of APPS."""


def starter_code(problem: Problem) -> str:
    """The beginning of the program that the prompt gives; empty if there is none.

    It is the problem's starter code, or as in HumanEval, a program in its text that defines the entry point.
    """
    facts = facts_of(problem)
    return facts.starter_code or _program_in(problem.text, facts.required_name)


def with_starter_names(code: str, problem: Problem) -> str:
    """A program with what it uses, and does not define, of the code that the prompt gives.

    That is what stands there beside the entry point: imports and helpers. For starter code it is also the names of
    ``_HARNESS``. A program that defines all names that it uses is returned as it is.
    """
    facts, given = facts_of(problem), starter_code(problem)
    if (given or facts.is_method) and unbound_names(code):
        tree = parse_program(given) or parse_program(f"{given.rstrip()}\n{stub_indentation(given)}pass")
        others = [node for node in tree.body if getattr(node, "name", "") != facts.required_name] if tree else []
        code = _with_first("\n".join(map(ast.unparse, others)), code)
        if facts.starter_code or facts.is_method:
            code = _with_first("\n".join(filter(None, map(_import, sorted(unbound_names(code))))), code)
    return code


@lru_cache(maxsize=256)
def _program_in(text: str, name: str | None) -> str:
    code = extract(text, entry_point=name).code if name else None
    tree = parse_program(code or "")
    return code if code and tree and name in defined_names(tree) else ""


def _import(name: str) -> str | None:
    """The statement that imports a name as the harness has it."""
    if name in _HARNESS:
        return f"import {name}"
    for module in map(importlib.import_module, _HARNESS):
        if name in getattr(module, "__all__", vars(module)) and not name.startswith("_"):
            return f"from {module.__name__} import {name}"
    return None


def _with_first(statements: str, code: str) -> str:
    """A program with more statements before its own, after its docstring and imports from ``__future__``."""
    tree = parse_program(code)
    if not statements or tree is None:
        return code
    line = 0
    for node in tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_docstring and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        line = node.end_lineno or line
    lines = code.split("\n")
    return "\n".join([*lines[:line], statements, *lines[line:]])
