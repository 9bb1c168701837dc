"""Rows of public datasets of code, in the forms of their authors."""

import json

import pytest

from engine.datasets import load_dataset
from engine.errors import InputError, OmittedRowError
from engine.tasks.code.execution import run_program
from engine.tasks.code.facts import facts_of
from engine.tasks.code.problems import UnusableRowError, code_problem
from engine.tasks.registry import task_of_row
from tests.support.table import table

CASES = [{"input": "1\n2\n", "output": "3\n"}, {"input": "4\n5\n", "output": "9\n"}]
INS_OUTS = {"inputs": [case["input"] for case in CASES], "outputs": [case["output"] for case in CASES]}
ADDS = "a, b = int(input()), int(input())\nprint(a + b)"
PAIRS = {"input": INS_OUTS["inputs"], "output": INS_OUTS["outputs"]}
CHAT = [{"role": "system", "content": "You code."}, {"role": "user", "content": "Add two numbers."}]
TEXT = "Add two numbers."

STDIN = {
    "DeepCoder": {"problem": TEXT, "solutions": [f"```python\n{ADDS}\n```"], "tests": json.dumps(CASES)},
    "DeepCoder, TACO": {"problem": TEXT, "tests": json.dumps(INS_OUTS), "solutions": [ADDS]},
    "Open-R1": {
        "problem_id": "vfc_1",
        "prompt": TEXT,
        "verification_info": {
            "language": "python",
            "test_cases": [{**case, "fn_name": None, "type": "stdin_stdout"} for case in CASES],
        },
    },
    "SYNTHETIC-1": {"prompt": TEXT, "verification_info": json.dumps({"test_cases": json.dumps(INS_OUTS)})},
    "verl": {"prompt": CHAT, "reward_model": {"style": "rule", "ground_truth": json.dumps(INS_OUTS)}},
    "verl, a list": {"prompt": CHAT, "reward_model": {"ground_truth": json.dumps(CASES)}, "ability": "code"},
    "CodeContests": {
        "name": "Add",
        "description": TEXT,
        "public_tests": {"input": PAIRS["input"][:1], "output": PAIRS["output"][:1]},
        "private_tests": {"input": PAIRS["input"][1:], "output": PAIRS["output"][1:]},
        "generated_tests": {"input": [], "output": []},
        "solutions": {"language": [2, 3], "solution": ["int main() {}", ADDS]},
    },
    "rStar-Coder": {"question": TEXT, "test_case_type": "stdin", **{k: json.dumps(v) for k, v in INS_OUTS.items()}},
    "Codeforces": {
        "id": "1/A",
        "title": "Add",
        "description": TEXT,
        "official_tests": CASES,
        "generated_checker": None,
    },
}


@table("name", [*STDIN])
def test_rows_with_inputs_and_outputs(name):
    row = STDIN[name]
    problem = code_problem(row, "x")
    assert (task_of_row(row).name, problem.text, facts_of(problem).io_mode) == ("code", TEXT, "stdin")
    assert [test["expected"] for test in facts_of(problem).tests] == ["3\n", "9\n"]
    assert problem.id == {"Open-R1": "vfc_1", "Codeforces": "1/A"}.get(name, "x")
    assert facts_of(problem).reference.strip() == (ADDS if "solutions" in row else "")
    assert run_program(ADDS, problem).all_passed
    assert not run_program("print(3)", problem).all_passed


def called(cases, **row):
    return code_problem({"problem": "Add.", "tests": json.dumps(cases), **row}, "x")


@table(
    ("inputs", "outputs"),
    [([[1, 2], [[1], [2]]], [[3], [[1, 2]]]), (["1\n2", "[1]\n[2]"], ["3", "[1, 2]"])],
)
def test_arguments_are_a_list_or_json_in_lines(inputs, outputs):
    problem = called({"fn_name": "add", "inputs": inputs, "outputs": outputs})
    assert run_program("def add(a, b): return a + b", problem).all_passed
    assert not run_program("def add(a, b): return 3", problem).all_passed


def test_a_function_may_be_named_by_its_tests():
    case = {"input": '"a"\n"b"', "output": '"ab"', "testtype": "functional", "metadata": {"func_name": "add"}}
    assert run_program("def add(a, b): return a + b", called([case])).all_passed


def test_a_function_may_be_named_beside_the_tests():
    cases = json.dumps({"inputs": ["1\n2"], "outputs": ["3"]})
    row = {"prompt": "Add.", "verification_info": {"test_cases": cases, "fn_name": "add"}}
    assert facts_of(code_problem(row, "x")).entry_point == "add"


def test_inputs_that_are_no_json_are_refused():
    with pytest.raises(UnusableRowError, match="a test cannot be written down"):
        called({"fn_name": "add", "inputs": ["a b"], "outputs": ["c"]})


@table("tests", [["assert add(1, 2) == 3", "assert add(2, 2) == 4"], '["assert add(1, 2) == 3"]'])
@table("field", ["tests", "test_cases"])
def test_rows_with_assert_statements(field, tests):
    row = {"question": "Add.", field: tests}
    assert task_of_row(row).name == "code"
    problem = code_problem(row, "x")
    assert facts_of(problem).entry_point == "add"
    assert run_program("def add(a, b): return a + b", problem).all_passed
    assert not run_program("def add(a, b): return 2", problem).all_passed


LEETCODE = {
    "task_id": "two-sum",
    "prompt": "from typing import *\n",
    "problem_description": "Find two numbers.",
    "starter_code": "class Solution:\n    def twoSum(self, nums: List[int], target: int) -> List[int]:\n        ",
    "completion": "class Solution:\n    def twoSum(self, nums: List[int], target):\n        return [0, 1]\n",
    "entry_point": "Solution().twoSum",
    "test": "def check(candidate):\n    assert candidate(nums = [3, 3], target = 6) == [0, 1]\n"
    "    assert is_same(candidate(nums = tree([1])), tree([1]))\n",
    "input_output": [{"input": "nums = [3, 3], target = 6", "output": "[0, 1]"}],
}


def test_a_row_of_leetcode():
    problem = code_problem(LEETCODE, "x")
    facts = facts_of(problem)
    assert (problem.id, problem.text, facts.entry_point) == ("two-sum", "Find two numbers.", "Solution.twoSum")
    assert [test["kwargs"] for test in facts.tests] == ["{'nums': [3, 3], 'target': 6}"]
    assert run_program(facts.reference, problem).all_passed
    assert not run_program(facts.reference.replace("[0, 1]", "[1, 0]"), problem).all_passed


def kodcode(test, solution="def half(x):\n    return x / 2\n"):
    return {"question_id": "K1", "question": "Halve.", "solution": solution, "test": test}


@table(
    ("test", "kinds"),
    [
        ("from solution import half\ndef test_it():\n    assert half(4) == 2\n    assert half(1) == 0.5", "call call"),
        ("import pytest\nfrom pytest import approx\nfrom solution import half\n"
         "def test_it():\n    assert half(4) == 2\ndef test_near():\n    assert half(1) == approx(0.5)\n"
         "def test_error():\n    with pytest.raises(TypeError):\n        half('')\n"
         "@pytest.mark.parametrize('x', [1])\ndef test_one(x):\n    assert half(x)\n", "call"),
        ("import math\nfrom solution import half\ndef test_it():\n    assert math.isclose(half(4), 2)", "assert"),
        ("from solution import half\ndef test_it():\n    x = half(4)\n    assert x == 2\n"
         "def test_more():\n    assert half(4) == 2\n", "assert call"),
    ],
)  # fmt: skip
def test_a_row_of_kodcode(test, kinds):
    row = kodcode(test)
    problem = code_problem(row, "x")
    facts = facts_of(problem)
    assert (task_of_row(row).name, problem.id, facts.entry_point) == ("code", "K1", "half")
    assert " ".join(test["kind"] for test in facts.tests) == kinds
    assert run_program(facts.reference, problem).all_passed
    assert not run_program("def half(x): return 3", problem).all_passed


OMITTED = {
    "a class": kodcode("from solution import Stack\ndef test_it():\n    assert Stack()", "class Stack: pass"),
    "two functions": kodcode("from solution import half, twice\ndef test_it():\n    assert half(twice(1)) == 1"),
    "any name": kodcode("from solution import *\ndef test_it():\n    assert half(4) == 2"),
    "a fixture": kodcode("from solution import half\ndef test_it(capsys):\n    assert half(4) == 2"),
    "BigCodeBench": {
        "instruct_prompt": "P",
        "entry_point": "f",
        "test": "import unittest\nclass T(unittest.TestCase): ...",
    },
    "trees": {**LEETCODE, "test": "def check(candidate):\n    assert candidate(tree([1])) == 2"},
    "a checker": {**STDIN["Codeforces"], "generated_checker": "import sys"},
}


@table("name", [*OMITTED])
def test_rows_whose_tests_cannot_be_run_are_left_out_and_counted(name, tmp_path):
    with pytest.raises(OmittedRowError):
        code_problem(OMITTED[name], "x")
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (STDIN["verl"], OMITTED[name])))
    loaded = load_dataset(str(path))
    assert len(loaded.problems) == 1
    assert "1 row has tests that cannot be run here and is left out" in loaded.note
    assert "rows.jsonl, line 2: " in loaded.note
    path.write_text((json.dumps(OMITTED[name]) + "\n") * 2)
    with pytest.raises(InputError, match="line 1: "):
        load_dataset(str(path))


@table(
    "row",
    [
        {"prompt": CHAT, "reward_model": {"style": "rule", "ground_truth": "42"}},
        {"prompt": CHAT, "reward_model": {"ground_truth": json.dumps({"input": "a", "label": "b"})}},
        {"prompt": CHAT, "verification_info": {"ground_truth": "42"}},
        {"prompt": CHAT, "reward_model": None, "verification_info": None, "test": None},
        {"question": "Q", "answer": "A", "test": "yes"},
    ],
)
def test_rows_without_tests_are_no_code(row):
    assert task_of_row(row) is None


def test_in_a_mixed_table_other_rows_have_no_tests():
    empty = dict.fromkeys(["tests", "test_list", "test", "input_output", "public_tests", "test_cases"])
    assert task_of_row({**empty, "question": "Q", "answer": "A"}) is None
    row = {**empty, **STDIN["rStar-Coder"]}
    assert (task_of_row(row).name, len(facts_of(code_problem(row, "x")).tests)) == ("code", 2)


@table("test", ["(1, 2)", "add(1, 2) == 3", "add", "1 + 1", "{'inputs': ['1'], 'outputs': ['2']}"])
def test_a_statement_that_cannot_fail_is_no_test(test):
    with pytest.raises(UnusableRowError, match="every program would pass it"):
        code_problem({"prompt": "p", "tests": test}, "x")
