"""Rows of public datasets in this project's form, which :mod:`engine.tasks.code.problems` reads.

MBPP, HumanEval, LeetCodeDataset, KodCode and AceCode have Python statements as tests. The others have inputs and
outputs: APPS, TACO, DeepCoder, LiveCodeBench, CodeContests, Codeforces, rStar-Coder, SYNTHETIC-1, Open-R1, verl.
"""

from __future__ import annotations

import ast
import base64
import json
import pickletools
import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from engine.errors import OmittedRowError
from engine.own_data.messages import message_of
from engine.reading.python_syntax import parse
from engine.tasks.code.facts import is_function
from engine.tasks.code.literals import to_literal
from engine.tasks.code.reply import defined_names, parse_program
from engine.tasks.code.test_cases import CodeTest, from_assert
from engine.tasks.code.testing.comparison import Comparison
from engine.tasks.rows import UnusableRowError

_MAX_UNPACKED = 256 << 20
"""Most bytes of the hidden tests of a row of LiveCodeBench."""

_CASES = ("tests", "input_output", "official_tests", "test_cases", "verification_info", "reward_model")
"""Fields that may have inputs and outputs."""
_OF_CODE_CONTESTS = ("public_tests", "private_tests", "generated_tests")
_PYTHON_3 = 3
"""The number of the language in CodeContests."""
_TEXTS = ("question", "problem", "prompt", "problem_statement", "description", "text")
"""Fields of the problem's text, in rows with inputs and outputs."""
_OF_CODEFORCES = ("description", "input_format", "output_format")


def own_form(row: Mapping[str, Any], default_id: str, prefix: str, public_tests: int) -> Mapping[str, Any] | None:
    """A row in this project's form; None if it has no tests in any known form.

    Args:
        row: an object of the dataset.
        default_id: the id of the problem if the row has none.
        prefix: the part of the id before the row's number, such as ``apps_train``.
        public_tests: number of tests that the prompt shows, for rows of MBPP.

    Raises:
        UnusableRowError: the row has no tests, or a test cannot be read.
        OmittedRowError: its tests cannot be run here.
    """
    if "unittest" in str(row.get("test")):  # BigCodeBench
        raise OmittedRowError("its tests are for unittest, and for programs with other libraries")
    if "test" in row and "entry_point" in row:
        return _of_leetcode(row) if "problem_description" in row else _of_human_eval(row)
    if "from solution import" in str(row.get("test")):
        return _of_kodcode(row)
    if (given := _given(row)) is not None:
        usual = "livecodebench" if "public_test_cases" in row else "apps" if "input_output" in row else ""
        return _with_cases(row, given, default_id, prefix or usual)
    if "test_list" in row and "tests" not in row:
        return _of_mbpp(row, default_id, prefix or "mbpp", public_tests)
    tests = row.get("tests", row.get("test_cases"))  # AceCode
    is_json = isinstance(tests, str) and tests.startswith("[")
    return None if tests is None else {**row, "tests": _json(tests, "tests") if is_json else tests}


def _of_mbpp(row: Mapping[str, Any], default_id: str, prefix: str, public_tests: int) -> dict[str, Any]:
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


def _of_leetcode(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of LeetCodeDataset, whose ``check`` compares calls of a method. Calls with trees and lists are left out."""
    asserts = [ast.unparse(node) for node in ast.walk(_parsed(row["test"])) if isinstance(node, ast.Assert)]
    calls = [test for test in map(from_assert, asserts) if test.get("fn") == "candidate"]
    method = row["entry_point"].replace("()", "")
    return {
        **row,
        "prompt": row["problem_description"],
        "canonical_solution": row.get("completion"),
        "tests": _some([{**test, "fn": method} for test in calls]),
        "entry_point": method,
    }


def _of_kodcode(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of KodCode, whose tests are functions for pytest. Those that need pytest itself are left out."""
    whole = _parsed(row["test"]).body
    names, of_pytest = _imported(whole, "solution"), ["pytest", *_imported(whole, "pytest")]
    body = [node for node in whole if _used(node).isdisjoint(of_pytest) and not _imported([node], "solution")]
    functions = [node for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test")]
    reference = parse_program(row.get("solution") or "")
    classes = {node.name for node in reference.body if isinstance(node, ast.ClassDef)} if reference else set()
    if len(names) != 1 or names[0] in {"*", *classes}:
        raise OmittedRowError("its tests use a class, or several functions of the program")
    setup = "\n".join(ast.unparse(node) for node in body if node not in functions)
    tests: list[Any] = []
    for function in functions:
        if function.args.args:  # of fixtures
            continue
        if all(isinstance(node, ast.Assert) for node in function.body) and not setup:
            tests += map(ast.unparse, function.body)
        else:
            code = f"{setup}\n{ast.unparse(function)}\n{function.name}()".lstrip()
            tests.append({"kind": "assert", "code": code})
    entry = {"task_id": row.get("question_id"), "canonical_solution": row.get("solution"), "entry_point": names[0]}
    return {**row, **entry, "prompt": row.get("question"), "tests": _some(tests)}


def _some(tests: list[Any]) -> list[Any]:
    if not tests:
        raise OmittedRowError("none of its tests can be run without pytest, fixtures, or objects of the tests")
    return tests


def _imported(body: Iterable[ast.stmt], module: str) -> list[str]:
    """The names that statements import from a module."""
    imports = [node for node in body if isinstance(node, ast.ImportFrom) and node.module == module]
    return [alias.name for node in imports for alias in node.names]


def _used(node: ast.stmt) -> set[str]:
    """The names that a statement uses or imports."""
    parts = list(ast.walk(node))
    return {part.id for part in parts if isinstance(part, ast.Name)} | {
        part.name for part in parts if isinstance(part, ast.alias)
    }


def _given(row: Mapping[str, Any]) -> Any:
    """The inputs and outputs of a row in the form of APPS; None if it has none.

    Raises:
        UnusableRowError: there are no tests, or they are not JSON.
    """
    if "public_test_cases" in row:  # LiveCodeBench
        cases = [*_json(row["public_test_cases"], "public_test_cases"), *_hidden(row.get("private_test_cases") or "[]")]
        return _cases(cases, "") | {"fn_name": (_json(row.get("metadata"), "metadata") or {}).get("func_name")}
    if "public_tests" in row:
        kinds = [row.get(kind) or {} for kind in _OF_CODE_CONTESTS]
        return {f"{side}s": [text for kind in kinds for text in kind.get(side, ())] for side in ("input", "output")}
    if "inputs" in row and "outputs" in row:  # rStar-Coder
        return {"fn_name": row.get("func_name"), **{name: _json(row[name], name) for name in ("inputs", "outputs")}}
    found = (_cases(row[name], name) for name in _CASES if name in row)
    given = next((given for given in found if given is not None), None)
    return _json(row["input_output"], "input_output") or {} if given is None and "input_output" in row else given


def _cases(value: Any, name: str) -> Any:
    """Inputs and outputs in the form of APPS, from the other forms of public datasets; None if the value has none.

    They are an object with ``inputs`` and ``outputs``, or a list of objects with ``input`` and ``output``, perhaps as
    JSON, and perhaps in another object.
    """
    if isinstance(value, str) and (name == "input_output" or re.match(r"\s*[{\[]\s*[{\"]", value)):
        value = _json(value, name)
    if isinstance(value, Mapping):
        inner = next((key for key in ("test_cases", "ground_truth") if key in value), None)
        given = value if inner is None else _cases(value[inner], inner)
        if not given or "inputs" not in given:
            return None
        return {**given, "fn_name": value.get("fn_name") or given.get("fn_name")}
    if not isinstance(value, list) or not value or not all(isinstance(case, Mapping) for case in value):
        return None
    if not all("input" in case and "output" in case for case in value):
        return None
    fn = value[0].get("fn_name") or (value[0].get("metadata") or {}).get("func_name")
    return {"fn_name": fn, **{f"{side}s": [case[side] for case in value] for side in ("input", "output")}}


def _hidden(text: str) -> list[dict[str, str]]:
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


def _with_cases(row: Mapping[str, Any], given: Mapping[str, Any], default_id: str, prefix: str) -> dict[str, Any]:
    """A row with inputs and outputs in this project's form."""
    if not given.get("inputs"):
        raise UnusableRowError("no_tests", "there is no test")
    if row.get("generated_checker"):  # Codeforces
        raise OmittedRowError("several outputs are right, and its checker is not run")
    starter, reference = unix_lines(row.get("starter_code") or ""), _reference(row)
    fn, inputs, outputs = given.get("fn_name"), given["inputs"], given.get("outputs") or []
    if fn and (owner := "Solution" if "class Solution" in starter else _class_with(fn, reference)):
        fn = f"{owner}.{fn}"
    if len(inputs) != len(outputs):
        raise UnusableRowError("unequal_tests", f"{len(inputs)} inputs and {len(outputs)} outputs")
    pairs = list(zip(inputs, outputs, strict=True))
    try:
        tests = [_call_test(fn, *pair) if fn else _stdin_test(*pair) for pair in pairs]
    except ValueError as error:
        raise UnusableRowError("unreadable_test", f"a test cannot be written down: {error}") from None
    number = next((row[name] for name in ("problem_id", "id", "question_id") if row.get(name) is not None), None)
    return {
        "task_id": default_id if number is None else f"{prefix}_{number}" if prefix else str(number),
        "dataset": prefix.partition("_")[0],
        "prompt": _text(row),
        "canonical_solution": reference,
        "tests": tests,
        "test_list": [{"input": given, "output": expected} for given, expected in pairs],
        "entry_point": fn,
        "io_mode": "call" if fn else "stdin",
        "starter_code": starter,
        "difficulty": row.get("difficulty"),
    }


def _text(row: Mapping[str, Any]) -> Any:
    """The text of a problem; that of the last message if it is a chat, as in rows for verl."""
    text = row.get("question_content") or next((row[name] for name in _TEXTS if row.get(name)), None)
    if text is not None and text == row.get("description"):
        return "\n\n".join(row[name] for name in _OF_CODEFORCES if row.get(name))
    return message_of(text[-1])[1] if isinstance(text, list) and text else text


def _reference(row: Mapping[str, Any]) -> str:
    """A right program of a row; empty if it has none in Python."""
    solutions = _json(row.get("solutions"), "solutions") or []
    if isinstance(solutions, Mapping):  # CodeContests
        pairs = zip(solutions["language"], solutions["solution"], strict=True)
        solutions = [program for language, program in pairs if language == _PYTHON_3]
    program = unix_lines(solutions[0]) if solutions else ""
    fenced = re.fullmatch(r"\s*```(?:python)?\n(.*?)```\s*", program, re.DOTALL)
    return fenced[1] if fenced else program


def _class_with(method: str, reference: str) -> str | None:
    """The class in which a reference defines a method, if it has no function of this name."""
    tree = parse_program(reference)
    if tree is None or method in defined_names(tree):
        return None
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return next((node.name for node in classes if method in defined_names(ast.Module(node.body, []))), None)


def _call_test(fn: str, args: Any, expected: Any) -> CodeTest:
    """A test that calls a function.

    In most rows of APPS the expected value is wrapped in a list of one element. Texts are JSON, with an argument in
    each line.
    """
    if isinstance(args, str):
        args, expected = [*map(json.loads, args.strip("\n").split("\n"))], [json.loads(expected)]
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


def _parsed(test: str) -> ast.Module:
    try:
        return parse(test)
    except ValueError as error:
        raise UnusableRowError("unreadable_test", f"a test cannot be read: {error}") from None


def _json(value: Any, name: str) -> Any:
    """The value of a field that may be JSON text, and that may be empty."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise UnusableRowError("bad_json", f"{name} is not JSON: {str(error)[:200]}") from None


def unix_lines(text: str) -> str:
    """A text whose lines end as on Unix."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
