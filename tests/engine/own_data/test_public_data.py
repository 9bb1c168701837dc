"""Public datasets as they come, answered without a model: no right style of a reply is lost, no wrong one passes."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.datasets import load_dataset
from engine.records import Completion, Problem
from engine.tasks.answers.task import truth_of
from engine.tasks.registry import task_named
from tests.conftest import SHARED_DATA, shared_file
from tests.support.answer_styles import hedged, of_choice, of_label, of_number, of_value

PROBLEMS = 12
LOST = 0.02
"""Share of the right replies that may be judged wrong or not be read."""

BBH = {
    **dict.fromkeys(["boolean_expressions", "causal_judgement", "formal_fallacies", "navigate"], "label"),
    **dict.fromkeys(["sports_understanding", "web_of_lies"], "label"),
    **dict.fromkeys(["date_understanding", "disambiguation_qa", "geometric_shapes", "hyperbaton"], "choice"),
    **dict.fromkeys(["logical_deduction_three_objects", "movie_recommendation", "penguins_in_a_table"], "choice"),
    **dict.fromkeys(["ruin_names", "snarks"], "choice"),
    **dict.fromkeys(["multistep_arithmetic_two", "object_counting"], "number"),
    "word_sorting": "text",
}
OTHERS = {
    "formula/formula_test.jsonl": "number",
    "formula/formula_train_subset_500.jsonl": "number",
    "formula/formula_val_subset_300.jsonl": "number",
    "banking77/train.csv": "label",
    "banking77/test.csv": "label",
}
OF_MATHEMATICS = ["gsm8k/test.jsonl", "aime2024.jsonl"]


def right_replies(problem: Problem) -> Iterator[str]:
    truth, how = truth_of(problem)
    match how.kind:
        case "choice":
            texts = dict(zip(how.marks, how.options, strict=False))
            yield from of_choice(truth, texts.get(truth, ""))
        case "label":
            yield from of_label(truth)
        case "number":
            yield from of_number(truth)
        case _:
            yield from of_value(truth)


def wrong_replies(problem: Problem) -> Iterator[str]:
    truth, how = truth_of(problem)
    others = [answer for answer in how.marks or how.labels if answer.casefold() != truth.casefold()]
    match how.kind:
        case "choice":
            texts = dict(zip(how.marks, how.options, strict=False))
            yield from of_choice(others[0], texts.get(others[0], ""))
            yield from hedged([truth, *others])
            yield f"Answer: ({others[0]}) {texts[truth]}"
        case "label":
            yield from of_label(others[0])
            yield from hedged([truth, *others])
        case "number":
            yield from of_number(f"{1.5 * float(truth) + 1:.2f}".removesuffix(".00"))
            yield f"Answer: not {truth}"
        case _:
            yield from of_value(f"{truth} indeed other")


def judged(problem: Problem, reply: str) -> bool | None:
    task = task_named(problem.task)
    return task.evaluate(task.parse(Completion(text=reply), problem), problem).is_correct


def check(problems: list[Problem]) -> None:
    right = [(problem, reply) for problem in problems for reply in right_replies(problem)]
    lost = [reply for problem, reply in right if judged(problem, reply) is not True]
    passed = [
        (reply, problem.answer) for problem in problems for reply in wrong_replies(problem) if judged(problem, reply)
    ]
    assert passed == []
    assert len(lost) <= LOST * len(right), lost[:5]


@pytest.mark.parametrize("name", BBH)
@pytest.mark.parametrize("form", ["as it comes", "csv"])
def test_bbh(name, form, tmp_path):
    path = shared_file(f"datasets/bbh/{name}.json")
    rows = json.loads(path.read_text(encoding="utf-8"))["examples"]
    if form == "csv":
        text = io.StringIO()
        table = csv.writer(text)
        table.writerow(["question", "answer"])
        table.writerows((row["input"], row["target"]) for row in rows)
        path = tmp_path / f"{name}.csv"
        path.write_text(text.getvalue(), encoding="utf-8")
    loaded = load_dataset(str(path))
    assert len(loaded.problems) == len(rows)
    assert {problem.task for problem in loaded.problems} == {"answers"}
    kinds = [truth_of(problem)[1].kind for problem in loaded.problems]
    assert kinds.count(BBH[name]) >= 0.98 * len(kinds)
    assert kinds.count(BBH[name]) == len(kinds) or "of another kind" in loaded.note
    assert all(problem.text == row["input"].strip() for problem, row in zip(loaded.problems, rows, strict=True))
    check(loaded.problems[:PROBLEMS])


@pytest.mark.parametrize("name", OTHERS)
def test_labels_and_numbers(name):
    loaded = load_dataset(str(shared_file(f"datasets/{name}")))
    assert {truth_of(problem)[1].kind for problem in loaded.problems} == {OTHERS[name]}
    check(loaded.problems[:PROBLEMS])


def test_all_labels_of_banking77_are_found_and_listed():
    loaded = load_dataset(str(shared_file("datasets/banking77/train.csv")), max_problems=3)
    values = [task_named("answers").prompt_values(problem) for problem in loaded.problems]
    assert [len(value["labels"]) for value in values] == [77] * 3
    assert "each prompt lists the 77 labels" in loaded.note


@pytest.mark.parametrize("name", OF_MATHEMATICS)
def test_mathematics(name):
    loaded = load_dataset(str(shared_file(f"datasets/{name}")))
    assert {problem.task for problem in loaded.problems} == {"math"}
    problems = loaded.problems[:PROBLEMS]
    right = [(problem, reply) for problem in problems for reply in of_number(problem.answer)]
    lost = [reply for problem, reply in right if judged(problem, reply) is not True]
    passed = [
        reply
        for problem in problems
        for reply in of_number(f"{float(problem.answer.replace(',', '')) + 1:g}")
        if judged(problem, reply)
    ]
    assert passed == []
    assert len(lost) <= LOST * len(right), lost[:5]


@pytest.mark.parametrize("case", ["small"])
def test_the_small_inputs_are_read_without_an_error(case):
    """Each is written after a class of public datasets; ``check_small.py`` there judges replies too."""
    folder = SHARED_DATA / "public" / case
    if not folder.is_dir():
        pytest.skip(f"real data not found: {folder} (set SHARED_DATA)")
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    for entry in expected:
        if entry["refuse"]:
            continue
        fields = {"answer": "query"} if entry["args"] else None
        loaded = load_dataset(str(Path(folder) / entry["file"]), fields=fields)
        problem = next(problem for problem in loaded.problems if entry["first"].split("\n")[0].strip() in problem.text)
        for replies in (entry["right"], entry["wrong"]):
            for reply in replies:
                assert judged(problem, reply) is (replies is entry["right"]), (entry["file"], reply)
