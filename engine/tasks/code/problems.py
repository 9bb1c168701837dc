"""Reads rows of MBPP, APPS, LiveCodeBench and this project's own files as problems of the task ``code``.

:mod:`engine.tasks.code.facts` describes the ``answer`` of a problem. Its ``meta`` has descriptive fields, such as the
difficulty, and the tests in the words of the dataset.
"""

from __future__ import annotations

import ast
import base64
import builtins
import json
import pickletools
import zlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

from engine.errors import InputError
from engine.reading.python_syntax import parse
from engine.records import Problem
from engine.tasks.code.facts import FACTS, checked_test, facts_of, is_function
from engine.tasks.code.literals import to_literal
from engine.tasks.code.reply import defined_names, parse_program
from engine.tasks.code.test_cases import CodeTest, called_names, from_assert, statements
from engine.tasks.code.testing.comparison import Comparison
from engine.tasks.rows import UnusableRowError

MAX_TESTS_CHARS = 192 << 10
"""Most characters of all tests of a problem. ``meta["tests_left_out"]`` counts the tests that do not fit."""

_MAX_UNPACKED = 256 << 20
"""Most bytes of the hidden tests of a row of LiveCodeBench."""

MBPP_SPLITS = {"prompt": range(1, 11), "test": range(11, 511), "validation": range(511, 601), "train": range(601, 975)}
"""The official splits by ``task_id``, for the full and the sanitized set."""

APPS_DIFFICULTIES = ("introductory", "interview", "competition")


def code_problem(row: Mapping[str, Any], default_id: str, *, prefix: str = "", public_tests: int = 1) -> Problem | None:
    """The problem of a row of MBPP (``test_list``), APPS (``input_output``), LiveCodeBench (``public_test_cases``),
    HumanEval (``test``) or this project.

    Args:
        row: an object of the dataset.
        default_id: the id of the problem if the row has none.
        prefix: the part of the id before the row's number, such as ``apps_train``.
        public_tests: number of tests that the prompt shows, for rows of MBPP.

    Returns:
        None if the row has none of these forms.

    Raises:
        UnusableRowError: the row has no problem text or no tests, or a test cannot be read.
    """
    try:
        if "tests" in row:
            return _own(row, default_id)
        if "input_output" in row:
            return _own(_of_apps(row, default_id, prefix or "apps"), default_id)
        if "public_test_cases" in row:
            return _own(_of_live_code_bench(row, default_id), default_id)
        if "test_list" in row:
            return _own(_of_mbpp(row, default_id, prefix or "mbpp", public_tests), default_id)
        if "test" in row and "entry_point" in row:
            return _own(_of_human_eval(row), default_id)
    except KeyError as error:
        raise UnusableRowError("malformed", f"there is no field {error}") from None
    except (TypeError, AttributeError) as error:
        raise UnusableRowError("malformed", f"a field has the wrong form: {error}") from None
    return None


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


def _of_mbpp(row: Mapping[str, Any], default_id: str, prefix: str, public_tests: int) -> dict[str, Any]:
    """A row of MBPP in this project's form."""
    number = row.get("task_id")
    return {
        "task_id": default_id if number is None else number if isinstance(number, str) else f"{prefix}_{number}",
        "dataset": prefix,
        "prompt": row.get("text") or row.get("prompt"),
        "canonical_solution": row.get("code") or row.get("canonical_solution"),
        "tests": [statement.strip() for statement in row["test_list"] or ()],  # texts only
        "test_list": row["test_list"],
        "test_setup_code": "\n".join([*(row.get("test_imports") or []), row.get("test_setup_code") or ""]).strip(),
        "public_count": public_tests,
        "io_mode": "call",
        "difficulty": row.get("difficulty"),
    }


def _of_apps(row: Mapping[str, Any], default_id: str, prefix: str) -> dict[str, Any]:
    """A row of APPS in this project's form."""
    given = _json(row["input_output"], "input_output")
    if not given or not given.get("inputs"):
        raise UnusableRowError("no_tests", "there is no test")
    solutions = _json(row.get("solutions"), "solutions") or []
    starter = _plain(row.get("starter_code") or "")
    fn, inputs, outputs = given.get("fn_name"), given["inputs"], given.get("outputs") or []
    reference = _plain(solutions[0]) if solutions else ""
    if fn and (owner := "Solution" if "class Solution" in starter else _class_with(fn, reference)):
        fn = f"{owner}.{fn}"
    if len(inputs) != len(outputs):
        raise UnusableRowError("unequal_tests", f"{len(inputs)} inputs and {len(outputs)} outputs")
    pairs = list(zip(inputs, outputs, strict=True))
    try:
        tests = [_call_test(fn, *pair) if fn else _stdin_test(*pair) for pair in pairs]
    except ValueError as error:
        raise UnusableRowError("unreadable_test", f"a test cannot be written down: {error}") from None
    number = row.get("problem_id", row.get("id"))
    return {
        "task_id": default_id if number is None else f"{prefix}_{number}",
        "dataset": "apps",
        "prompt": row.get("question"),
        "canonical_solution": reference,
        "tests": tests,
        "test_list": [{"input": given, "output": expected} for given, expected in pairs],
        "entry_point": fn,
        "io_mode": "call" if fn else "stdin",
        "starter_code": starter,
        "difficulty": row.get("difficulty"),
    }


def _of_live_code_bench(row: Mapping[str, Any], default_id: str) -> dict[str, Any]:
    """A row of LiveCodeBench in this project's form. A function gets an argument from each line of a test's input."""
    cases = [*_json(row["public_test_cases"], "public_test_cases"), *_private(row.get("private_test_cases") or "[]")]
    fn = (_json(row.get("metadata"), "metadata") or {}).get("func_name")
    try:
        inputs = [[*map(json.loads, case["input"].strip("\n").split("\n"))] if fn else case["input"] for case in cases]
        outputs = [[json.loads(case["output"])] if fn else case["output"] for case in cases]
    except ValueError as error:
        raise UnusableRowError("unreadable_test", f"a test is not JSON: {error}") from None
    given = {"fn_name": fn, "inputs": inputs, "outputs": outputs}
    known = {"question": row["question_content"], "id": row.get("question_id"), "input_output": given}
    return _of_apps({**row, **known}, default_id, "livecodebench") | {"dataset": "livecodebench"}


def _private(text: str) -> list[dict[str, str]]:
    """The hidden tests of LiveCodeBench: JSON, or JSON in a pickled text, compressed and encoded.

    Only the opcodes of the pickle are read: to load it could execute code, or take any amount of memory.
    """
    if text.startswith("["):
        return list(_json(text, "private_test_cases"))
    try:
        unpacked = zlib.decompressobj().decompress(base64.b64decode(text), _MAX_UNPACKED)
        opcodes = [*pickletools.genops(unpacked)]
        [pickled] = [argument for opcode, argument, _ in opcodes if opcode.name.endswith("UNICODE")]
        return list(json.loads(str(pickled)))
    except (ValueError, TypeError, zlib.error) as error:
        raise UnusableRowError("unreadable_test", f"private_test_cases cannot be read: {error}") from None


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
    text = _plain(row.get("prompt") or row.get("problem") or row.get("question") or row.get("text") or "").strip()
    if not text:
        raise UnusableRowError("no_statement", "there is no problem text")
    if not tests:
        raise UnusableRowError("no_tests", "there is no test")
    fitting = _within_limit(tests)
    if not fitting:
        raise UnusableRowError("tests_too_large", f"no test is shorter than {MAX_TESTS_CHARS} characters")
    reference = _plain(row.get("canonical_solution") or row.get("reference") or "")
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


def _of_human_eval(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of HumanEval, whose prompt is the head of the function, and whose test defines ``check``."""
    body, name = row.get("canonical_solution"), row["entry_point"]
    reference = f"{row['prompt']}{body}" if body else ""
    return {
        **row,
        "tests": [f"{row['test']}\ncheck({name})"],
        "canonical_solution": reference,
        "test_setup_code": _helpers(row["prompt"], name),
    }


def _helpers(head: str, entry_point: str) -> str:
    """What the head of a function defines before it, with its imports: tests of HumanEval call such functions."""
    tree = parse_program(head)
    others = [node for node in tree.body if getattr(node, "name", None) != entry_point] if tree else []
    if not any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in others):
        return ""
    return "\n".join(map(ast.unparse, others))


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


def _class_with(method: str, reference: str) -> str | None:
    """The class in which a reference defines a method, if it has no function of this name."""
    tree = parse_program(reference)
    if tree is None or method in defined_names(tree):
        return None
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return next((node.name for node in classes if method in defined_names(ast.Module(node.body, []))), None)


def _call_test(fn: str, args: Any, expected: Any) -> CodeTest:
    """A test that calls a function. In most rows of APPS the expected value is wrapped in a list of one element."""
    if not is_function(fn) or not isinstance(args, list):
        raise ValueError("fn_name is no name, or the input is no list of arguments")
    if isinstance(expected, list) and len(expected) == 1:
        expected = expected[0]
    text = to_literal(expected)
    cmp: Comparison = "float" if "." in text else "sequence"
    return {"kind": "call", "fn": fn, "args": to_literal(args), "expected": text, "cmp": cmp}


def _stdin_test(given: Any, expected: Any) -> CodeTest:
    text = _lines(expected)
    return {"kind": "stdin", "stdin": _lines(given), "expected": text, "cmp": "float" if "." in text else "tokens"}


def _lines(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(map(_lines, value))
    if not isinstance(value, str):
        return to_literal(value)
    return value.replace("\r\n", "\n")


def _json(value: Any, name: str) -> Any:
    """The value of a field of APPS: JSON text that may be empty."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise UnusableRowError("bad_json", f"{name} is not JSON: {str(error)[:200]}") from None


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
