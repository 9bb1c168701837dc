import pytest

from engine.errors import InputError
from engine.records import Completion, Outcome, Problem
from engine.reward_evaluator import RewardEvaluator
from engine.task_protocols import TakesOpinions
from engine.tasks.code import task
from engine.tasks.code.execution import run_program
from engine.tasks.code.facts import facts_of
from engine.tasks.code.problems import code_problem
from engine.tasks.code.task import TASK
from engine.tasks.code.testing.report import Report
from tests.conftest import shared_file
from tests.support.table import table

ROW = {
    "text": "Write a function to double a number.",
    "code": "def double(x):\n    return 2 * x",
    "task_id": 700,
    "test_list": ["assert double(2) == 4", "assert double(0) == 0", "assert double(-3) == -6"],
}
DOUBLE = code_problem(ROW, "x")


def reply(code):
    return f"<think>Simple.</think>\n```python\n{code}\n```"


def scored(text, problem=DOUBLE, **options):
    return RewardEvaluator(**options).score(TASK, problem, TASK.parse(Completion(text=text), problem))


@table(
    ("code", "r_ans", "r_logic"),
    [
        ("def double(x):\n    return x + x", 1.0, 1.0),
        ("def double(x):\n    return x * x", 0.0, 1 / 2),  # 4, which the prompt shows, and 0 are right, 9 is not -6
        ("def double(x):\n    return 4", 0.0, 0.0),  # what the test in the prompt expects
        ("def double(x):\n    return 2 * x if x < 1 else 7", 0.0, 2 / 3),  # only the one in the prompt fails
        ("def double(x):\n    return None", 0.0, 0.0),
        ("def other(x):\n    return 2 * x", 0.0, 0.0),
        ("def double(x:", 0.0, 0.0),
        ("class Yes:\n    __eq__ = lambda *_: True\ndef double(x):\n    return Yes()", 0.0, 0.0),
    ],
)
def test_rewards_by_hand(code, r_ans, r_logic):
    result = scored(reply(code))
    assert (result.rewards.r_ans, result.rewards.r_graph) == (r_ans, None)
    assert result.rewards.r_logic == pytest.approx(r_logic)
    assert result.rewards.r_total == pytest.approx((0.5 * r_ans + 0.25 * r_logic) / 0.75)
    assert result.is_correct == (r_ans == 1.0)


def test_problems_whose_reference_fails_are_named_before_a_run():
    rows = [
        {"prompt": "Double.", "tests": ["assert double(2) == 5"], "canonical_solution": ROW["code"]},
        {
            "prompt": "Size.",
            "tests": ["assert Stack().size() == 0"],
            "canonical_solution": "class Stack:\n    size = len",
        },
        {"prompt": "Nothing.", "tests": ["assert nothing(2) is None"], "canonical_solution": "def nothing(x): pass"},
        {"prompt": "No reference.", "tests": ["assert double(2) == 5"]},
        {"prompt": '"""Half."""\n', "test": "def check(f): assert f(4) == 2", "entry_point": "half"},
    ]
    problems = [code_problem({"task_id": f"p{index}", **row}, "x") for index, row in enumerate(rows)]
    head, *faults = TASK.remarks([DOUBLE, *problems])
    assert "3 of 4 problems" in head
    assert faults[0] == "  p0: its reference passes 0 of 1 tests: wrong_answer"
    assert "p1: its reference passes 0 of 1 tests: NotPlainError" in faults[1]
    assert faults[2] == "  p2: a program that does nothing passes its tests"
    assert TASK.remarks([DOUBLE]) == []
    silent = code_problem({"prompt": "Print.", "tests": '[{"input": "1", "output": ""}]'}, "p9")
    assert TASK.remarks([silent])[1] == "  p9: a program that does nothing passes its tests"


def test_the_seed_counts_all_tests_or_nothing():
    weights = {"r_ans": 1.0, "r_logic": 0.0, "r_graph": 0.0}
    assert scored(reply("def double(x):\n    return x * x"), weights=weights).rewards.r_total == 0.0


def test_the_analyst_is_told_what_failed():
    detail = scored(reply("def double(x):\n    return x * x")).detail
    assert detail["remarks"] == ["2 of 3 tests pass", "first failure: wrong_answer in assert double(-3) == -6"]
    assert (detail["passed"], detail["total"], detail["tests"]) == (2, 3, {"pass": 2, "wrong_answer": 1})
    assert TASK.truth(DOUBLE) == ROW["code"]


@pytest.mark.parametrize(
    ("text", "kind", "asks_again"),
    [
        ("I think it is easy.", "no_code", True),
        ("<think>Well, ```python\ndef double(x): return 2 * x\n```", "unclosed_think", False),
        ("```python\ndef double(x):\n    return (2 *", "unclosed_fence", False),
        (reply("def double(x:"), "syntax_error", False),
    ],
)
def test_replies_without_a_program_are_the_models_fault(text, kind, asks_again):
    candidate = TASK.parse(Completion(text=text), DOUBLE)
    assert (candidate.outcome, candidate.fault.kind) == (Outcome.MODEL_FAULT, kind)
    assert bool(TASK.re_ask_reason(candidate)) == asks_again
    result = scored(text)
    assert (result.outcome, result.rewards.r_ans, result.rewards.r_total) == (Outcome.MODEL_FAULT, 0.0, 0.0)


def test_a_right_program_is_not_asked_for_again():
    assert TASK.re_ask_reason(TASK.parse(Completion(text=reply(ROW["code"])), DOUBLE)) is None


def test_a_failure_of_the_sandbox_is_no_reward(monkeypatch):
    report = Report(Outcome.INFRA_FAULT, (), "no worker could be started")
    monkeypatch.setattr(task, "run_program", lambda *args, **options: report)
    result = scored(reply(ROW["code"]))
    assert (result.outcome, result.is_correct, result.rewards.r_total) == (Outcome.INFRA_FAULT, None, None)
    assert result.detail["why"] == "no worker could be started"


def test_a_program_that_never_ends_is_recorded_as_such():
    problem = code_problem({**_own(time_limit_s=0.5)}, "x")
    result = scored(reply("def double(x):\n    while True: pass"), problem)
    assert (result.outcome, result.rewards.r_ans) == (Outcome.VERIFIER_TIMEOUT, 0.0)


def _own(**more):
    return {"problem": "Double.", "tests": [{"kind": "call", "fn": "double", "args": "(1,)", "expected": "2"}], **more}


def test_a_program_that_reads_stdin():
    row = {"problem": "Add.", "tests": [{"kind": "stdin", "stdin": "1 2\n", "expected": "3\n", "cmp": "tokens"}]}
    problem = code_problem(row, "x")
    assert scored(reply("print(sum(map(int, input().split())))"), problem).is_correct
    assert not scored(reply("print(12)"), problem).is_correct


def test_all_that_decides_stands_in_text_and_answer():
    """A line of a cache keeps no more of a problem; the critic and the fine-tune work from that."""
    bare = Problem(id=DOUBLE.id, text=DOUBLE.text, answer=DOUBLE.answer, task="code")
    assert TASK.prompt_values(bare) == TASK.prompt_values(DOUBLE)
    assert scored(reply(ROW["code"]), bare).is_correct


def test_a_candidate_comes_back_from_its_record():
    for text in (reply("# note\ndef double(x):\n    return 2*x"), reply("def double(x:"), "no idea"):
        candidate = TASK.parse(Completion(text=text), DOUBLE)
        again = TASK.candidate_from_record(TASK.to_record(candidate), candidate.content.normalised, DOUBLE)
        assert (again.content, again.outcome) == (candidate.content, candidate.outcome)
    assert TASK.candidate_from_record({"code": ROW["code"], "thinking": "t"}, None, DOUBLE).content.normalised
    assert TASK.candidate_from_record(reply(ROW["code"]), None, DOUBLE).content.normalised


def test_equal_programs_are_merged_and_others_are_not():
    candidate, same = (
        TASK.parse(Completion(text=reply(code)), DOUBLE)
        for code in ("def double(x): return 2*x", ROW["code"] + "  # yes")
    )
    other = TASK.parse(Completion(text=reply("def double(x): return x+x")), DOUBLE)
    nothing = TASK.parse(Completion(text="no idea"), DOUBLE)
    assert TASK.merge([nothing, candidate, same], DOUBLE).candidate is candidate
    merge = TASK.merge([candidate, other, same], DOUBLE)
    assert (merge.candidate, merge.conflicts) == (None, ["proposals 1 and 3 are the same program"])
    assert TASK.merge([nothing], DOUBLE).candidate is None


def test_a_problem_without_tests_is_refused():
    with pytest.raises(InputError, match=r"mine\.jsonl, line 3: there is no test"):
        TASK.problem_from_row({"problem": "P", "tests": []}, "mine.jsonl, line 3")


def test_no_judge_is_asked():
    assert not isinstance(TASK, TakesOpinions)


def test_every_reference_of_mbpp_passes_and_every_stub_fails():
    from concurrent.futures import ThreadPoolExecutor

    from engine.datasets import load_problems
    from engine.tasks.code.preparation import empty_program

    problems = load_problems(str(shared_file("datasets/mbpp_train.jsonl")))
    with ThreadPoolExecutor(4) as pool:
        references = list(pool.map(lambda problem: run_program(facts_of(problem).reference, problem), problems))
        stubs = list(pool.map(lambda problem: run_program(empty_program(problem), problem, stop_early=True), problems))
    assert len(problems) == 384
    assert [problem.id for problem, report in zip(problems, references, strict=True) if not report.all_passed] == []
    assert [problem.id for problem, report in zip(problems, stubs, strict=True) if report.all_passed] == []


@pytest.mark.parametrize(
    ("content", "leaks"),
    [
        ("The answer is 1729.", True),
        ("For the taxicab number return 1729 at once.", True),
        ("Check 0 and negative numbers before the loop.", False),
        ("Sort a copy, so that the argument stays unchanged.", False),
    ],
)
def test_an_experience_must_not_hold_an_expected_value(content, leaks):
    row = {"problem": "P", "tests": [{"kind": "call", "fn": "f", "args": "(2,)", "expected": "1729"}]}
    assert TASK.leaks_answer(content, code_problem(row, "x")) is leaks


def test_a_program_is_displayed_with_the_result_of_each_test(tmp_path):
    candidate = TASK.parse(Completion(text=reply("def double(x):\n    return x * x")), DOUBLE)
    detail = RewardEvaluator().score(TASK, DOUBLE, candidate).detail
    program, tests = TASK.display(candidate, DOUBLE, detail, tmp_path)
    assert program.text == "def double(x):\n    return x * x"
    assert tests.text == "2 / 3"
    assert [row[1] for row in tests.rows] == ["result", "pass", "pass", "wrong_answer"]
    assert tests.rows[3][0] == "assert double(-3) == -6"


@table("detail", [{}, {"statuses": None}, {"statuses": [1, None, "x", "y", "z"], "passed": None}])
def test_damaged_details_of_a_program_are_displayed_as_far_as_they_go(detail, tmp_path):
    candidate = TASK.parse(Completion(text=reply("def double(x): return x")), DOUBLE)
    assert len(TASK.display(candidate, DOUBLE, detail, tmp_path)[1].rows) == 4
    assert TASK.display(candidate, DOUBLE.model_copy(update={"answer": "[]"}), detail, tmp_path)[0].kind == "code"
