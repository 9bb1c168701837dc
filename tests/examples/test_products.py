"""The example whose problems a small real model is trained on."""

from engine.datasets import load_problems
from engine.records import Completion
from engine.reward_evaluator import RewardEvaluator
from engine.tasks.registry import load_task
from tests.conftest import ROOT
from tests.support.table import table

PLACE = f"{ROOT}/examples/products.py"


def test_no_problem_of_the_test_is_trained_on():
    for name in ("TASK", "TEST"):
        load_task(f"{PLACE}:{name}")
    trained = load_problems("products", max_problems=1000)
    tested = load_problems("products_test", max_problems=1000)
    assert {problem.text for problem in trained}.isdisjoint(problem.text for problem in tested)
    assert len({problem.text for problem in trained}) == len(trained) == 700
    assert len({problem.text for problem in tested}) == len(tested) == 200


@table(
    ("reply", "is_right"),
    [
        ("143", True),
        ("11 * 13 = 143.", True),
        ("1,143", False),
        ("143 or 144", False),
        ("The answer is", False),
    ],
)
def test_the_last_number_of_a_reply_is_its_answer(reply, is_right):
    task = load_task(f"{PLACE}:TASK")
    problem = task.problem_from_row({"a": 11, "b": 13, "answer": "143"}, "row").model_copy(update={"id": "p"})
    candidate = task.parse(Completion(text=reply, finish_reason="stop", model="m"), problem)
    assert RewardEvaluator().score(task, problem, candidate).is_correct is is_right
