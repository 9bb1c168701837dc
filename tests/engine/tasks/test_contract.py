"""The contract of every task: the gold reply scores 1, the empty reply earns nothing; the protocols of each task."""

import pytest

from engine import task_protocols
from engine.datasets import load_problems
from engine.task import Task, validate
from engine.tasks.registry import known_tasks, task_named
from engine.tasks.simple import SimpleTask
from tests.conftest import shared_file

ROWS = {
    "math": {"problem": "Half of one?", "answer": r"\frac{1}{2}"},
    "physics": {"problem": "A car goes 30 m in 2 s. How fast is it?", "answer": "15 m/s"},
    "answers": {"mail": "Where is my parcel?", "label": "shipping"},
    "code": {"prompt": "Double x.", "code": "def double(x):\n    return 2 * x", "test_list": ["assert double(2) == 4"]},
    "phaser": {"prompt_id": "p1", "task": "Show a red circle.", "must_use_apis": ["this.add.circle"]},
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_scores_as_it_should(name):
    task = task_named(name)
    problem = task.problem_from_row(ROWS[name], "row 1")
    assert validate(task, problem) == []
    assert (task.gold_reply(problem) is None) is (name == "phaser")  # a program is not in its row


def test_generated_and_real_problems_score_as_they_should(aime2024):
    problems = [*load_problems("quickstart", max_problems=26), *load_problems(str(aime2024), max_problems=10)]
    for problem in [*problems, *load_problems(str(shared_file("datasets/mbpp_train.jsonl")), max_problems=10)]:
        task = task_named(problem.task)
        assert task.gold_reply(problem)
        assert validate(task, problem) == []


def test_a_reward_that_is_wrong_is_named():
    def generous(answer, row):
        return 1.0

    def strict(answer, row):
        return float(answer == "twelve")

    for reward, faults in (
        (generous, []),
        (strict, ["the gold reply '<answer>12</answer>' is scored as wrong (all 0)"]),
    ):
        task = SimpleTask("{question}", reward)
        assert validate(task, task.problem_from_row({"question": "Q", "answer": "12"}, "row 1")) == faults
    unknown = SimpleTask("{question}", strict)
    assert validate(unknown, unknown.problem_from_row({"question": "Q"}, "row 1")) == []


def test_an_empty_reply_that_is_paid_is_named():
    class Lenient(type(task_named("math"))):
        def evaluate(self, candidate, problem):
            measured = super().evaluate(candidate, problem)
            return measured if candidate.stated_answer else type(measured)({"r_ans": 0.3}, False)

    problem = task_named("math").problem_from_row(ROWS["math"], "row 1")
    assert validate(Lenient(), problem) == ["the empty reply is paid: {'r_ans': 0.3}"]


def test_each_task_implements_the_protocols_that_it_needs():
    protocols = {
        task.name: {
            name
            for name, member in vars(task_protocols).items()
            if isinstance(member, type) and member.__module__ == task_protocols.__name__ and isinstance(task, member)
        }
        for task in known_tasks()
    }
    assert {name: names for name, names in protocols.items() if names} == {
        "math": {"MakesAnswers", "ReadsDescribedRows", "TakesOpinions"},
        "physics": {"MakesAnswers", "ReadsDescribedRows", "TakesOpinions"},
        "answers": {"GradesInParts", "JudgedByRubric", "ReadsDescribedRows", "ShowsImages", "TakesSchema"},
        "code": {
            "DisplaysItself",
            "PreparesData",
            "ChecksItself",
            "GradesInParts",
            "MakesAnswers",
            "ReadsQuestions",
            "RemarksOnProblems",
        },
        "phaser": {"DisplaysItself", "MakesAnswers", "HasCheckOptions", "AddsScoredFields"},
        "traffic": {"DisplaysItself", "GradesInParts", "HasCheckOptions", "TrainsOnline"},
    }


def test_the_core_of_the_contract_is_small():
    assert len([name for name in vars(Task) if not name.startswith("_")]) <= 26
