"""The content of a code problem's ``answer``: its tests, its entry point and its limits, as JSON text.

A record with only the text and the answer of a problem is therefore enough to build its prompt and to score programs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from engine.errors import InputError
from engine.reading.python_syntax import parse
from engine.records import Problem
from engine.sandbox.inside.wire import to_form
from engine.tasks.code.literals import from_literal
from engine.tasks.code.test_cases import CodeTest

_COMPARISONS = {
    "call": ("exact", "sequence", "float"),
    "stdin": ("exact", "lines", "tokens", "float"),
    "assert": ("exact",),
}
"""Allowed values of ``cmp`` by kind of test; :class:`engine.tasks.code.test_cases.CodeTest` describes them."""

FACTS = ("entry_point", "io_mode", "tests", "public_count", "starter_code", "reference", "time_limit_s")
"""The fields of :class:`CodeFacts`."""


@dataclass(frozen=True)
class CodeFacts:
    """The content of a problem's ``answer``.

    Args:
        io_mode: ``call`` or ``stdin``.
        tests: see :class:`engine.tasks.code.test_cases.CodeTest`.
        entry_point: the function that tests call; None if programs read stdin.
        public_count: number of tests, from the first, that the prompt shows.
        starter_code: code that the solver is given as a start; may be empty.
        reference: a correct program; may be empty.
        time_limit_s: seconds for one test; None is the default of the sandbox.
    """

    io_mode: Literal["call", "stdin"]
    tests: tuple[CodeTest, ...]
    entry_point: str | None = None
    public_count: int = 0
    starter_code: str = ""
    reference: str = ""
    time_limit_s: float | None = None

    @property
    def required_name(self) -> str | None:
        """The name that a program must define at its top level: the function, or the class of the method."""
        return self.entry_point.partition(".")[0] if self.entry_point else None

    @property
    def is_method(self) -> bool:
        """Whether tests call a method of a class."""
        return "." in (self.entry_point or "")


def facts_of(problem: Problem) -> CodeFacts:
    """The content of a problem's ``answer``.

    Raises:
        InputError: it is not a problem of this task, or has no tests.
    """
    try:
        return read_facts(problem.answer)
    except InputError as error:
        raise InputError(f"{problem.id}: {error.what}", why=error.why, fix=error.fix) from None


@lru_cache(maxsize=256)
def read_facts(answer: str) -> CodeFacts:
    """The content of the text of a problem's ``answer``.

    Raises:
        InputError: as for :func:`facts_of`; the message does not name the problem.
    """
    try:
        value = json.loads(answer)
        facts = CodeFacts(**{name: value[name] for name in FACTS if name in value})
        facts = CodeFacts(**{**vars(facts), "tests": tuple(checked_test(test) for test in facts.tests)})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(
            "the answer of a code problem must be JSON with its tests",
            why=str(error)[:300],
            fix='Give rows with "test_list" (MBPP), "input_output" (APPS) or "tests"; see docs/how-to/python-code.md.',
        ) from None
    if not facts.tests:
        raise InputError("there is no test", fix="A program without tests cannot be scored; take the problem out.")
    limit_s: Any = facts.time_limit_s
    if limit_s is not None and not (type(limit_s) in (int, float) and 0 < limit_s < math.inf):
        raise InputError(f"time_limit_s is {limit_s!r}", fix="Give seconds above 0.")
    if facts.io_mode not in ("call", "stdin"):
        raise InputError(f"io_mode is {facts.io_mode!r}", fix='Give "call" or "stdin".')
    return facts


def checked_test(test: Any) -> CodeTest:
    """Validate a test when its problem is loaded, so that a malformed test does not stop a run later.

    Raises:
        ValueError, TypeError, KeyError: it is not a valid test.
    """
    needed = {"call": ("fn", "args", "expected"), "stdin": ("stdin", "expected"), "assert": ("code",)}
    if not isinstance(test, Mapping) or test.get("kind") not in needed:
        raise ValueError('a test is an assert statement, or an object with a "kind": call, stdin or assert')
    missing = [key for key in needed[test["kind"]] if not isinstance(test.get(key), str)]
    if missing:
        raise ValueError(f"a test of kind {test['kind']} needs the text {missing[0]!r}")
    row: CodeTest = {key: value for key, value in test.items() if key in CodeTest.__annotations__}  # type: ignore[assignment]
    if row["kind"] == "call":
        args, kwargs = from_literal(row["args"]), from_literal(row.get("kwargs", "{}"))
        if not isinstance(args, list | tuple) or not is_function(row["fn"]):
            raise ValueError("a call needs a function's name and a list of arguments")
        if not _is_keywords(kwargs):
            raise ValueError("kwargs of a call must be a dict of names")
        to_form([args, kwargs, from_literal(row["expected"])])
    for source in (row.get("code", ""), row.get("setup", "")):
        parse(source)
    if "cmp" in row and row["cmp"] not in _COMPARISONS[row["kind"]]:
        raise ValueError(f"cmp is {row['cmp']!r}; it may be {', '.join(_COMPARISONS[row['kind']])}")
    return row


def _is_keywords(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(name, str) and name.isidentifier() for name in value)


def is_function(name: str) -> bool:
    """Whether the text is the name of a function, or ``Class.method``."""
    return all(segment.isidentifier() for segment in name.split(".", maxsplit=1))
