"""Reads rows of public datasets and of this project's own files as problems of the task ``code``.

:mod:`engine.tasks.code.facts` describes the ``answer`` of a problem. Its ``meta`` has descriptive fields, such as the
difficulty, and the tests in the words of the dataset.
"""

from __future__ import annotations

import ast
import builtins
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from engine.errors import InputError
from engine.reading.python_syntax import parse
from engine.records import Problem
from engine.tasks.code.facts import FACTS, checked_test, facts_of
from engine.tasks.code.public_rows import own_form, unix_lines
from engine.tasks.code.reply import defined_names, parse_program
from engine.tasks.code.test_cases import CodeTest, called_names, from_assert, statements
from engine.tasks.rows import UnusableRowError

MAX_TESTS_CHARS = 192 << 10
"""Most characters of all tests of a problem. ``meta["tests_left_out"]`` counts the tests that do not fit."""

MBPP_SPLITS = {"prompt": range(1, 11), "test": range(11, 511), "validation": range(511, 601), "train": range(601, 975)}
"""The official splits by ``task_id``, for the full and the sanitized set."""

APPS_DIFFICULTIES = ("introductory", "interview", "competition")


def code_problem(row: Mapping[str, Any], default_id: str, *, prefix: str = "", public_tests: int = 1) -> Problem | None:
    """The problem of a row of this project, or of a public dataset (see :mod:`engine.tasks.code.public_rows`).

    Args:
        row: an object of the dataset.
        default_id: the id of the problem if the row has none.
        prefix: the part of the id before the row's number, such as ``apps_train``.
        public_tests: number of tests that the prompt shows, for rows of MBPP.

    Returns:
        None if the row has none of these forms.

    Raises:
        UnusableRowError: the row has no problem text or no tests, or a test cannot be read.
        OmittedRowError: the tests of a public dataset cannot be run here.
    """
    try:
        filled = {name: value for name, value in row.items() if value is not None}
        own = own_form(filled, default_id, prefix, public_tests)
        return None if own is None else _own(own, default_id)
    except KeyError as error:
        raise UnusableRowError("malformed", f"there is no field {error}") from None
    except (TypeError, AttributeError) as error:
        raise UnusableRowError("malformed", f"a field has the wrong form: {error}") from None


def row_of(problem: Problem) -> dict[str, Any]:
    """A problem as a line of ``data/train.jsonl``; :func:`code_problem` reads it back as the same problem."""
    facts = json.loads(problem.answer)
    return {
        "dataset": problem.meta.get("dataset", ""),
        "task_id": problem.id,
        "prompt": problem.text,
        "canonical_solution": facts.get("reference", ""),
        "test_list": problem.meta.get("test_list", []),
        "test_setup_code": problem.meta.get("test_setup_code", ""),
        "difficulty": problem.meta.get("difficulty", ""),
        **{name: facts[name] for name in FACTS if name in facts and name != "reference"},
    }


def _own(row: Mapping[str, Any], default_id: str) -> Problem:
    """A row of this project's form. A missing entry point is determined as for MBPP."""
    given, setup = row["tests"], row.get("test_setup_code") or ""
    listed = list(row.get("test_list") or [])
    try:
        given = _statements(given) if isinstance(given, str) else given
        tests = [from_assert(test, setup) if isinstance(test, str) else checked_test(test) for test in given]
        for test in tests:
            if test["kind"] == "assert":  # not in checked_test: stored problems with other tests stay readable
                statements(test["code"])
    except ValueError as error:
        raise UnusableRowError("unreadable_test", f"a test cannot be read: {error}") from None
    text = unix_lines(row.get("prompt") or row.get("problem") or row.get("question") or row.get("text") or "").strip()
    if not text:
        raise UnusableRowError("no_statement", "there is no problem text")
    if not tests:
        raise UnusableRowError("no_tests", "there is no test")
    fitting = _within_limit(tests)
    if not fitting:
        raise UnusableRowError("tests_too_large", f"no test is shorter than {MAX_TESTS_CHARS} characters")
    reference = unix_lines(row.get("canonical_solution") or row.get("reference") or "")
    io_mode = row.get("io_mode") or ("stdin" if tests[0]["kind"] == "stdin" else "call")
    facts = {
        "io_mode": io_mode,
        "tests": [tests[index] for index in fitting],
        "entry_point": row.get("entry_point") or (_entry_point(tests, reference) if io_mode == "call" else None),
        "public_count": min(row.get("public_count", 0), len(fitting)),
        "starter_code": row.get("starter_code"),
        "reference": reference,
        "time_limit_s": row.get("time_limit_s"),
    }
    known = {name: value for name, value in facts.items() if value not in ("", None)}
    problem = Problem(
        id=str(row.get("task_id") or row.get("id") or default_id),
        text=text,
        answer=json.dumps(known, ensure_ascii=False),
        task="code",
        meta={
            "dataset": row.get("dataset") or "",
            "difficulty": row.get("difficulty") or "",
            "test_list": [listed[index] for index in fitting] if len(listed) == len(tests) else [],
            "test_setup_code": setup,
            "tests_left_out": len(tests) - len(fitting),
        },
    )
    try:
        facts_of(problem)
    except InputError as error:
        raise UnusableRowError("unreadable_test", error.why or error.what) from None
    return problem


def _statements(text: str) -> list[str]:
    """The assert statements of a text, each a test; a text with other statements is one test.

    Raises:
        ValueError: it is not valid Python.
    """
    body = parse(text).body
    return [ast.unparse(node) for node in body] if all(isinstance(node, ast.Assert) for node in body) else [text]


def _within_limit(tests: list[CodeTest]) -> list[int]:
    """The indices of the tests that fit into ``MAX_TESTS_CHARS`` together."""
    room, fitting = MAX_TESTS_CHARS, []
    for index, test in enumerate(tests):
        size = sum(len(str(value)) for value in test.values())
        if size <= room:
            room -= size
            fitting.append(index)
    return fitting


def _entry_point(tests: list[CodeTest], reference: str) -> str | None:
    """The function that most tests call, among those that the reference defines if there is a reference.

    Functions that a test itself or its setup defines do not count, nor do those of Python that the reference lacks.
    """
    tree = parse_program(reference)
    defined = defined_names(tree) if tree else set()
    counts: Counter[str] = Counter()
    for test in tests:
        trees = map(parse_program, (test.get("setup", ""), test.get("code", "")))
        bound_by_test = set().union(*(defined_names(tree) for tree in trees if tree))
        asked_for = defined or set(called_names(test)) - vars(builtins).keys()
        counts.update([name for name in called_names(test) if name in asked_for - bound_by_test][:1])
    return counts.most_common(1)[0][0] if counts else None
