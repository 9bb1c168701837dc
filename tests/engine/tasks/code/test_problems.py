import base64
import json
import pathlib
import pickle
import zlib

import pytest

from engine.errors import InputError
from engine.records import Completion, Problem
from engine.task import validate
from engine.tasks.code import public_rows
from engine.tasks.code.execution import run_program
from engine.tasks.code.facts import facts_of
from engine.tasks.code.preparation import CodePreparation
from engine.tasks.code.problems import MAX_TESTS_CHARS, UnusableRowError, code_problem, row_of
from engine.tasks.registry import task_named, task_of_row
from tests.support.table import table

MBPP = {
    "text": "Write a function to add two numbers.",
    "code": "def helper(a):\r\n\treturn a\r\ndef add(a, b):\r\n\treturn helper(a) + b",
    "task_id": 7,
    "test_setup_code": "",
    "test_list": ["assert add(1, 2) == 3", "assert add(2, 2) == 4", "assert int(add(0, 0)) == 0"],
    "challenge_test_list": [],
}


def apps(given, **changes):
    row = {
        "problem_id": 12,
        "question": "Add the numbers.\r\n",
        "solutions": json.dumps(["print(sum(map(int, input().split())))"]),
        "input_output": json.dumps(given) if not isinstance(given, str) else given,
        "difficulty": "interview",
        "url": "",
        "starter_code": "",
    }
    return code_problem({**row, **changes}, "x", prefix="apps_train")


def test_a_row_of_mbpp():
    problem = code_problem(MBPP, "x")
    facts = facts_of(problem)
    assert (problem.id, problem.task, problem.text) == ("mbpp_7", "code", MBPP["text"])
    assert (facts.entry_point, facts.io_mode, facts.public_count) == ("add", "call", 1)
    assert [test["kind"] for test in facts.tests] == ["call", "call", "assert"]
    assert facts.reference == "def helper(a):\n\treturn a\ndef add(a, b):\n\treturn helper(a) + b"
    assert problem.meta["test_list"] == MBPP["test_list"]


def test_a_sanitized_row_has_its_imports_as_setup():
    row = {"prompt": "P", "task_id": 3, "code": "def f(): return 1", "test_imports": ["import math"],
           "test_list": ["assert math.isclose(f(), 1)"], "source_file": "x"}  # fmt: skip
    problem = code_problem(row, "x", prefix="mbpp_sanitized")
    assert problem.id == "mbpp_sanitized_3"
    assert facts_of(problem).tests == ({"kind": "assert", "code": row["test_list"][0], "setup": "import math"},)
    assert facts_of(problem).entry_point == "f"  # math.isclose is no name that the reference defines


def test_a_row_of_apps_that_reads_stdin():
    problem = apps({"inputs": ["1 2\r\n", ["3 4", "5"]], "outputs": ["3\n", ["7.5"]]})
    facts = facts_of(problem)
    assert (problem.id, facts.io_mode, facts.entry_point) == ("apps_train_12", "stdin", None)
    assert facts.tests == (
        {"kind": "stdin", "stdin": "1 2\n", "expected": "3\n", "cmp": "tokens"},
        {"kind": "stdin", "stdin": "3 4\n5", "expected": "7.5", "cmp": "float"},
    )
    assert problem.meta["difficulty"] == "interview"


def test_a_row_of_apps_that_is_called():
    given = {"fn_name": "twoSum", "inputs": [[[1, 2], 3], [[1], 0.5]], "outputs": [[[0, 1]], [0.5]]}
    facts = facts_of(apps(given))
    assert facts.tests[0] == {
        "kind": "call", "fn": "twoSum", "args": "[[1, 2], 3]", "expected": "[0, 1]", "cmp": "sequence"
    }  # fmt: skip
    assert (facts.tests[1]["expected"], facts.tests[1]["cmp"]) == ("0.5", "float")
    method = facts_of(apps(given, starter_code="class Solution:\r\n    def twoSum(self, nums, k):\r\n"))
    assert (method.entry_point, method.tests[0]["fn"]) == ("Solution.twoSum", "Solution.twoSum")


def test_a_method_of_the_reference_is_called_where_a_row_of_apps_has_no_starter_code():
    given = {"fn_name": "twice", "inputs": [[1], [2]], "outputs": [2, 4]}
    method = "class Doubler:\n    def twice(self, x):\n        return 2 * x\n"
    problem = apps(given, solutions=json.dumps([method]))
    assert facts_of(problem).entry_point == "Doubler.twice"
    assert run_program(method, problem).all_passed
    called = apps(given, solutions=json.dumps([method + "twice = Doubler().twice\n"]))
    assert facts_of(called).entry_point == "twice"


@table(
    ("given", "reason"),
    [
        ("", "no_tests"),
        ({"inputs": [], "outputs": []}, "no_tests"),
        ({}, "no_tests"),
        ("{", "bad_json"),
        ("[" * 100_000, "bad_json"),
        ('{"inputs": [' + "7" * 60_000 + '], "outputs": [1]}', "bad_json"),
        ({"inputs": ["1"], "outputs": []}, "unequal_tests"),
        ({"fn_name": "f", "inputs": [1], "outputs": [1]}, "unreadable_test"),
        ({"fn_name": "os; f", "inputs": [[1]], "outputs": [1]}, "unreadable_test"),
        ({"inputs": ["x" * MAX_TESTS_CHARS], "outputs": ["1"]}, "tests_too_large"),
        ([1], "malformed"),
    ],
)
def test_rows_that_cannot_be_used_say_why(given, reason):
    with pytest.raises(UnusableRowError) as caught:
        apps(given)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"test_list": []}, "no_tests"),
        ({"test_list": ["assert f("]}, "unreadable_test"),
        ({"text": " "}, "no_statement"),
        ({"test_list": [7]}, "malformed"),
    ],
)
def test_mbpp_rows_that_cannot_be_used_say_why(change, reason):
    with pytest.raises(UnusableRowError) as caught:
        code_problem({**MBPP, **change}, "x")
    assert caught.value.reason == reason


def test_what_is_too_large_is_left_out_and_counted():
    problem = apps({"inputs": ["1", "x" * MAX_TESTS_CHARS, "2"], "outputs": ["1", "2", "3"]})
    assert [test["stdin"] for test in facts_of(problem).tests] == ["1", "2"]
    assert problem.meta["tests_left_out"] == 1
    assert [test["input"] for test in problem.meta["test_list"]] == ["1", "2"]


def test_another_row_is_no_code():
    assert code_problem({"problem": "1 + 1?", "answer": "2"}, "x") is None


@pytest.mark.parametrize(
    "problem", [code_problem(MBPP, "x"), apps({"inputs": ["1"], "outputs": ["2"]})], ids=["mbpp", "apps"]
)
def test_a_written_row_is_read_back_as_the_same_problem(problem):
    row = json.loads(json.dumps(row_of(problem)))
    again = code_problem(row, "y")
    assert (again.id, again.text, again.answer) == (problem.id, problem.text, problem.answer)
    assert row.keys() >= {"dataset", "task_id", "prompt", "canonical_solution", "test_list", "test_setup_code"}


def test_a_row_of_our_own_needs_little():
    tests = [{"kind": "call", "fn": "f", "args": "(1,)", "expected": "2"}]
    facts = facts_of(code_problem({"problem": "P", "tests": tests}, "x"))
    assert (facts.entry_point, facts.io_mode, facts.public_count) == ("f", "call", 0)
    for bad in ({"kind": "call", "fn": "f", "args": "f(1)", "expected": "2"}, {"kind": "call"}, {"kind": "x"}, 7):
        with pytest.raises(UnusableRowError):
            code_problem({"problem": "P", "tests": [bad]}, "x")


def test_tests_may_be_assert_statements():
    listed = {"prompt": "p", "tests": ["assert f(1) == 2", "assert isclose(f(2), 3)"]}
    facts = facts_of(code_problem({**listed, "test_setup_code": "from math import isclose"}, "x"))
    assert [(test["kind"], test["setup"]) for test in facts.tests] == [("assert", "from math import isclose")] * 2
    assert [test["kind"] for test in facts_of(code_problem(listed, "x")).tests] == ["call", "assert"]
    text = {"prompt": "p", "tests": "assert f(1) == 2\nassert f(2) == 3"}
    assert [test["expected"] for test in facts_of(code_problem(text, "x")).tests] == ["2", "3"]
    steps = facts_of(code_problem({"prompt": "p", "tests": "x = f(1)\nassert x == 2"}, "x"))
    assert ([test["kind"] for test in steps.tests], steps.entry_point) == (["assert"], "f")
    for bad in ("assert f(", ["assert f("], [{"code": "assert f(1)"}]):
        with pytest.raises(UnusableRowError, match="a test cannot be read"):
            code_problem({"prompt": "p", "tests": bad}, "x")


def packed(value):
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


LIVE_CODE_BENCH = {
    "question_title": "Sum",
    "question_content": "Add all numbers.",
    "question_id": "abc301_a",
    "starter_code": "",
    "difficulty": "easy",
    "public_test_cases": json.dumps([{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]),
    "private_test_cases": packed(json.dumps([{"input": "2 2\n", "output": "4\n", "testtype": "stdin"}])),
    "metadata": "{}",
}


def test_a_row_of_live_code_bench_that_reads_stdin():
    assert task_of_row(LIVE_CODE_BENCH).name == "code"
    problem = code_problem(LIVE_CODE_BENCH, "x")
    assert (problem.id, problem.text, facts_of(problem).io_mode) == (
        "livecodebench_abc301_a",
        "Add all numbers.",
        "stdin",
    )
    assert [(test["stdin"], test["expected"]) for test in facts_of(problem).tests] == [
        ("1 2\n", "3\n"),
        ("2 2\n", "4\n"),
    ]
    assert run_program("print(sum(map(int, input().split())))", problem).all_passed
    assert not run_program("print(3)", problem).all_passed


def test_a_row_of_live_code_bench_that_is_called():
    cases = [{"input": "[1, 2]\n3", "output": "[6]", "testtype": "functional"}]
    row = LIVE_CODE_BENCH | {
        "starter_code": "class Solution:\n    def total(self, nums: List[int], more: int) -> List[int]:\n        ",
        "public_test_cases": json.dumps(cases),
        "private_test_cases": json.dumps(cases),
        "metadata": json.dumps({"func_name": "total"}),
    }
    problem = code_problem(row, "x")
    assert (facts_of(problem).entry_point, len(facts_of(problem).tests)) == ("Solution.total", 2)
    program = "class Solution:\n    def total(self, nums, more):\n        return [sum(nums) + more]"
    assert run_program(program, problem).all_passed
    assert not run_program(program.replace("[sum(nums) + more]", "sum(nums) + more"), problem).all_passed


def test_hidden_tests_execute_no_code_and_take_no_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(public_rows, "_MAX_UNPACKED", 10_000)
    too_long = packed(json.dumps([{"input": "1" * 10_000, "output": "1"}]))

    class Attack:
        def __reduce__(self):
            return pathlib.Path.touch, (tmp_path / "executed",)

    a_terabyte = base64.b64encode(zlib.compress(b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little") + b"x.")).decode()
    for private in (packed(Attack()), packed("[1"), packed([b"x"]), a_terabyte, too_long, "no base64", "eA=="):
        with pytest.raises(UnusableRowError, match="private_test_cases cannot be read"):
            code_problem(LIVE_CODE_BENCH | {"private_test_cases": private}, "x")
    assert not (tmp_path / "executed").exists()


def test_a_row_of_human_eval():
    head, body = 'def add(a, b):\n    """Add."""\n', "    return a + b\n"
    test = "def check(candidate):\n    assert candidate(1, 2) == 3\n"
    row = {"task_id": "HumanEval/0", "prompt": head, "canonical_solution": body, "test": test, "entry_point": "add"}
    problem = code_problem(row, "x")
    assert task_of_row(row).name == "code"
    assert (problem.id, facts_of(problem).entry_point) == ("HumanEval/0", "add")
    assert validate(task_named("code"), problem) == []


def test_a_test_of_human_eval_may_call_another_function_of_the_head():
    head = 'import math\n\ndef encode(x):\n    return math.floor(x) + 1\n\n\ndef decode(x):\n    """Undo encode."""\n'
    test = "def check(candidate):\n    assert candidate(encode(4)) == 4\n"
    row = {"task_id": "HumanEval/50", "prompt": head, "canonical_solution": "    return x - 1\n", "test": test}
    problem = code_problem({**row, "entry_point": "decode"}, "x")
    assert validate(task_named("code"), problem) == []
    assert not run_program(head + "    return x - 2\n", problem).all_passed
    assert code_problem(row_of(problem), "x").answer == problem.answer


FUTURE = '"""F."""\nfrom __future__ import generator_stop\n'


def human_eval(head, name, test):
    test = f"def check(candidate):\n    assert {test}\n"
    return code_problem({"task_id": "HumanEval/1", "prompt": head, "entry_point": name, "test": test}, "x")


@table(
    ("head", "code", "wrong"),
    [
        ("from typing import List\n\n\n", "def f(x: List[int]) -> int:\n    return sum(x)", "sum(x)"),
        ("from typing import *\nfrom math import *\n", "def f(x):\n    return int(fsum(x))", "fsum(x)"),
        ("import math as m\n", "def f(x):\n    return int(m.fsum(x))", "m.fsum(x)"),
        ("import collections.abc\n", "def f(x: collections.abc.Sequence):\n    return sum(x)", "sum(x)"),
        ("def add(a, b):\n    return a + b\n\n", "def f(x):\n    return add(*x)", "add(*x)"),
        ("from functools import reduce\nLEAST = 0\n", "def f(x): return reduce(int.__add__, x, LEAST)", "int.__add__,"),
        ("from typing import List\n", f"{FUTURE}def f(x: List): return sum(x)", "sum(x)"),
    ],
)  # fmt: skip
def test_a_program_may_use_what_stands_before_its_function_in_the_prompt(head, code, wrong):
    stub = 'def f(x):\n    """The sum of x."""\n'
    problem = human_eval(head + stub, "f", "candidate([1, 2]) == 3")
    assert run_program(code, problem).all_passed
    assert run_program(code if code.startswith(FUTURE) else f"{head}\n{code}", problem).all_passed
    assert not run_program(code.replace(wrong, "max," if "," in wrong else "0"), problem).all_passed
    assert run_program(code, human_eval(stub, "f", "candidate([1, 2]) == 3")).detail.startswith("NameError")


def test_a_name_that_the_program_defines_is_its_own():
    head = 'def add(a, b):\n    return a + b\n\ndef f(x):\n    """The sum."""\n'
    problem = human_eval(head, "f", "candidate([1, 2]) == 3")
    assert not run_program("def add(a, b): return 0\ndef f(x): return add(*x)", problem).all_passed
    assert not run_program("def f(x):\n    add = max\n    return add(x)", problem).all_passed


@table(
    "body",
    [
        "def f(self, x: List[int]) -> Optional[int]:\n        return sum(x)",
        "def f(self, x):\n        return max(accumulate(x))",
        "def f(self, x):\n        return reduce(lambda a, b: a + b, x)",
        "def f(self, x):\n        heapify(x)\n        return heappop(x) + heapq.heappop(x)",
        "def f(self, x):\n        return deque([sum(Counter(x))]).pop()",
        "def f(self, x):\n        return int(math.fsum(x)) if inf > bisect_left(x, 2) else 0",
        "@cache\n    def g(self): return 3\n    def f(self, x): return self.g()",
    ],
)
@table("starter", ["class Solution:\n    def f(self, x: List[int]) -> int:\n        ", ""])
def test_programs_for_starter_code_have_the_names_of_its_authors_harness(starter, body):
    program = f"class Solution:\n    {body}\n"
    given = {"fn_name": "f", "inputs": [[[1, 2]]], "outputs": [3]}
    problem = apps(given, starter_code=starter, solutions=json.dumps([program]))
    assert facts_of(problem).entry_point == "Solution.f"
    assert CodePreparation().fault(problem) is None
    unknown = run_program(program.replace("return", "lists; return"), problem)
    assert (unknown.all_passed, "lists" in unknown.detail) == (False, True)


@table(
    ("text", "is_right"),
    [
        ("        return sum(x)", True),
        ("```python\n        return sum(x)\n```", True),
        ("```python\nreturn len(x)\n```", False),
        ("```python\ndef f(x: List[int]):\n    return sum(x)\n```", True),
    ],
)
def test_a_reply_that_continues_the_prompt(text, is_right):
    head = 'from typing import List\n\n\ndef f(x: List[int]) -> int:\n    """The sum of x."""\n'
    problem = human_eval(head, "f", "candidate([1, 2]) == 3 and candidate([]) == 0")
    task = task_named("code")
    assert task.evaluate(task.parse(Completion(text=text), problem), problem).is_correct is is_right


@pytest.mark.parametrize(
    "test",
    [
        "def test_it():\n    assert f(1) == 2",
        "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(f(1), 2)",
        '"""The tests."""',
        {"kind": "assert", "code": "async def test_it():\n    assert f(1) == 2"},
        {"kind": "assert", "code": "# none"},
    ],
)
def test_a_test_that_executes_nothing_is_refused(test):
    with pytest.raises(UnusableRowError, match="every program would pass it"):
        code_problem({"prompt": "p", "tests": [test, "assert f(1) == 2"]}, "p1")


@pytest.mark.parametrize(
    "test",
    [
        "assert abs(mean([1, 2]) - 1.5) < 1e-9",
        "assert round(mean([1, 2]), 5) == 1.5",
        "from math import isclose\nassert isclose(mean([1, 2]), 1.5)",
        "def near(a, b): return abs(a - b) < 1e-9\nassert near(mean([1, 2]), 1.5)",
    ],
)
def test_a_function_around_the_call_is_not_the_entry_point(test):
    problem = code_problem({"prompt": "p", "tests": [test, test.replace("1.5", "(1 + 2) / 2")]}, "p1")
    assert facts_of(problem).entry_point == "mean"
    assert run_program("def mean(values):\n    return sum(values) / len(values)", problem).all_passed


def test_a_function_that_the_setup_brings_is_not_the_entry_point():
    test = {"kind": "assert", "code": "assert isclose(f(1), 5) == True", "setup": "from math import isclose"}
    assert facts_of(code_problem({"prompt": "p", "tests": [test]}, "p1")).entry_point == "f"


_CALL = {"kind": "call", "fn": "f", "args": "[1]", "expected": "2"}


@table(
    ("test", "said"),
    [
        ({"kind": "assert", "code": "assert f(1 =="}, "not Python"),
        ({"kind": "assert", "code": "assert f(1) == 1", "setup": "x = ("}, "not Python"),
        ({**_CALL, "args": "(...,)"}, "no plain builtin"),
        ({**_CALL, "kwargs": "[1]"}, "kwargs"),
        ({**_CALL, "kwargs": "{1"}, "not Python"),
        ({**_CALL, "kwargs": "{1: 2}"}, "kwargs"),
        ({**_CALL, "cmp": "exactly"}, "cmp is 'exactly'"),
        ({"kind": "stdin", "stdin": "1", "expected": "2", "cmp": "sequence"}, "cmp is 'sequence'"),
    ],
)
def test_a_test_that_no_run_could_ask_is_refused_when_it_is_read(test, said):
    with pytest.raises(UnusableRowError, match=said) as refused:
        code_problem({"prompt": "p", "tests": [test]}, "p1")
    assert refused.value.reason == "unreadable_test"


@table("seconds", ["5", -1, 0, True, float("nan"), float("inf")])
def test_a_time_limit_is_a_number_of_seconds(seconds):
    with pytest.raises(UnusableRowError, match="time_limit_s"):
        code_problem({"prompt": "p", "tests": [_CALL], "time_limit_s": seconds}, "p1")


@pytest.mark.parametrize(
    "answer", ["12", "[]", "{}", '{"io_mode": "call", "entry_point": "f", "tests": []}', "[" * 9999]
)
def test_a_problem_without_tests_is_refused(answer):
    with pytest.raises(InputError, match="p1"):
        facts_of(Problem(id="p1", text="P", answer=answer, task="code"))
