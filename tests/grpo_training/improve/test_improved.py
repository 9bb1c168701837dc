"""The prompt that is taken home: questions of tasks whose prompts show more than a text, and answers of replies."""

import os
import subprocess
import sys

import pytest

from engine.errors import InputError
from engine.own_data.describe import describe
from engine.records import Experience
from engine.tasks import registry
from engine.tasks.registry import load_task, task_named
from grpo_training.improve.improved import Improved, Result
from grpo_training.improve.improved_folder import write_improved
from tests.conftest import ROOT

LESSON = Experience(id="G1-001", content="Check the empty input.")

TASK = """
from engine.tasks.simple import SimpleTask

def reward(text, row):
    raise ValueError("not called by a program that only asks")

def both(row):
    assert row["label"]
    return row["head"] + " / " + row["body"]

ONE = SimpleTask("Which of A and B is it? {mail}", reward, name="one_text")
TWO = SimpleTask(both, reward, name="two_texts")
"""
OWN = """
from engine.records import Candidate, Outcome, Problem
from engine.task import Measurement, Task

class Lengths(Task[str]):
    name = "lengths"

    def problem_from_row(self, row, where):
        return Problem(id="", text=row["text"], answer="?", task=self.name)

    def parse(self, completion, problem):
        return Candidate(Outcome.OK, content=completion.text, text=completion.text)

    def evaluate(self, candidate, problem):
        raise AssertionError("a program that asks knows no truth")

    def answer(self, candidate):
        return str(len(candidate.content))

TASK = Lengths()
"""
GRAPH = '[{"cause": ["first", "second"], "effect": "total", "rule": "total = first + second"}]'


def improved(row, task="", prompts="full"):
    read = (load_task(task) if ":" in task else task_named(task)).problem_from_row(row, "row 1")
    example = read.model_copy(update={"id": "question", "text": "", "meta": {}})
    shared = {"sentence": "s", "verdict": "adopted", "model": "m", "role": "generator_1", "dataset": "d"}
    return Improved(Result(task=task, prompts=prompts, example=example, **shared), [LESSON])


def asked(prompt, question):
    return prompt.messages(question)[-1]["content"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    (tmp_path / "mine.py").write_text(TASK)
    return f"{tmp_path / 'mine.py'}:"


def test_a_prompt_for_programs_names_no_function_of_the_dataset():
    prompt = improved({"text": "Write add(a, b).", "test_list": ["assert add(1, 2) == 3"]}, "code")
    assert "`add`" not in prompt.text()
    assert "assert add" not in prompt.text()
    assert "{question}" in prompt.text()
    assert "Write median(xs)." in asked(prompt, "Write median(xs).")
    assert "a function named `median`" in asked(prompt, {"prompt": "Write it.", "entry_point": "median"})
    assert "a function named `rev`" in asked(prompt, {"prompt": "Write it.", "tests": ["assert rev('a') == 'a'"]})
    program = "def median(xs):\n    return 1  # so far"
    assert prompt.answer(f"<think>Hm.</think>\n```python\n{program}\n```") == program
    assert prompt.answer("I cannot.") is None


def test_a_question_is_put_into_the_template_of_a_users_task(place):
    prompt = improved({"mail": "Lost!", "label": "A"}, place + "ONE")
    assert "Which of A and B is it? {question}" in prompt.text()
    assert "Which of A and B is it? Where is it?" in asked(prompt, "Where is it?")
    assert "Which of A and B is it? Hello" in asked(prompt, {"mail": "Hello"})
    assert prompt.answer("So.\n<answer>B</answer>") == "B"


def test_the_folder_has_the_users_task(place, tmp_path, monkeypatch):
    result = improved({"mail": "Lost!", "label": "A"}, place + "ONE").result
    write_improved(tmp_path / "home", result, [LESSON], tmp_path / "run")
    assert "`mine.py`" in (tmp_path / "home/README.md").read_text()
    (tmp_path / "home").rename(tmp_path / "elsewhere")
    code = (
        "from grpo_training import Improved; print(Improved.load('elsewhere').messages('Where is it?')[-1]['content'])"
    )
    (tmp_path / "mine.py").unlink()
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert "Which of A and B is it? Where is it?" in done.stdout, done.stderr


def test_a_task_whose_prompt_shows_several_texts_says_which(place):
    prompt = improved({"head": "h", "body": "b", "label": "A"}, place + "TWO")
    assert "{head} / {body}" in prompt.text()
    assert "x / y" in asked(prompt, {"head": "x", "body": "y"})
    with pytest.raises(InputError, match="has the fields body, head") as refused:
        prompt.messages("x")
    assert refused.value.fix == "Give a row: messages({'body': ..., 'head': ...})."


def test_the_answer_of_a_scaffold_is_what_its_graph_computes():
    knowns = '"chosen_strategy": "add", "target_variable": "total", "knowns": {"first": 14, "second": 84}'
    prompt = improved({"problem": "14 and 84?", "answer": "98"}, "math", "compact")
    assert prompt.answer(f'{{{knowns}, "causal_graph": {GRAPH}, "final_answer": ""}}') == "98"
    assert prompt.answer(f'{{{knowns}, "causal_graph": [], "final_answer": "97"}}') == "97"
    assert prompt.answer("no scaffold") is None


def test_the_answer_of_a_reply_needs_no_truth_and_no_class_of_the_task(place, tmp_path):
    (tmp_path / "length.py").write_text(OWN)
    prompt = improved({"text": "How long is ab?"}, f"{tmp_path / 'length.py'}:TASK")
    assert prompt.answer("abc") == "3"
    game = improved({"id": "p", "task": "Make a game."}, "phaser")
    assert (
        game.answer("[PLAN]\nOne scene.\n[/PLAN]\n```javascript\nnew Phaser.Game({});\n```") == "new Phaser.Game({});"
    )
    assert game.answer("```javascript\nnew Phaser.Game({") is None


@pytest.mark.parametrize("reply", ["Answer: Shipping.", "Hm.\nAnswer: **shipping**", "SHIPPING"])
def test_a_label_is_returned_as_the_dataset_writes_it(reply):
    rows = [{"mail": f"m{n}", "label": ("shipping", "Billing")[n % 2]} for n in range(8)]
    row, how = describe(rows, where="mails").plain_row(rows[1], "row 2")
    example = task_named("answers").described_problem(row, how, "row 2")
    example = example.model_copy(update={"id": "question", "text": ""})
    shared = {"sentence": "s", "verdict": "adopted", "model": "m", "role": "generator_1", "dataset": "d"}
    prompt = Improved(Result(task="answers", prompts="full", example=example, **shared), [])
    assert prompt.answer(reply) == "shipping"
    assert prompt.answer("Answer: neither") == "neither"
