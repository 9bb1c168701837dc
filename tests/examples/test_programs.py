"""The programs of the examples, against a stand-in of a server."""

import json

import pytest

import grpo_training
from examples.programs import _called, _value
from grpo_training.runs import folder as run_folders
from tests.conftest import ROOT, shared_file
from tests.grpo_training.learning.test_trials import lucky
from tests.support.analyst import NO_LESSON, for_analyst, with_lesson
from tests.support.fault_server import chat_app, serve_in_thread


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder."""
    monkeypatch.setattr(run_folders, "WORKING_DIR", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def improve(name, rows, reply, reply_fields=None, **arguments):
    app = chat_app(reply, reply_fields=reply_fields)
    with serve_in_thread(app) as url:
        program = f"{ROOT / 'examples/programs.py'}:{name}"
        result = grpo_training.improve(rows, program=program, base_url=url, model="m", **arguments)
    return result, [request.body for request in app["seen"]]


def test_a_lesson_about_searching_makes_the_right_passage_found(folder):
    towns = ["Aba", "Bona", "Celle", "Dole", "Elne", "Faro", "Gera", "Hof", "Ivry", "Jena", "Kiel", "Lodi"]
    rows = [
        {
            "question": f"Is the river of {town} longer than that of {towns[n - 1]}?",
            "passages": [f"{town} has a mayor.", f"{town} is a town.", f"Its stream near {town}: length {n}."],
            "answer": "yes" if n % 2 else "no",
        }
        for n, town in enumerate(towns)
    ]

    def reply(body, index):
        text = body["messages"][-1]["content"]
        if for_analyst(body):
            lesson = "When a river is asked for, search for its length and for stream."
            return with_lesson(lesson) if 'the step "search"' in text else NO_LESSON
        if "Which words should be searched for?" in text:
            return "length stream" if "length and for stream" in text else "river"
        town = next(name for name in towns if f"the river of {name} " in text)
        truth = "yes" if towns.index(town) % 2 else "no"
        is_found = "stream" in text
        right = is_found or lucky(text, (body["seed"], index)) < 0.5
        return f"I think.\n{truth if right else 'maybe'}"

    result, _ = improve("retrieve", rows, reply, epochs=3, cases=0)
    assert result.verdict == "adopted"
    assert {experience.category for experience in result.improved.experiences} == {"search"}


def test_a_calculator_is_used_on_public_problems(folder):
    lines = shared_file("datasets/formula/formula_test.jsonl").read_text().splitlines()[:10]
    rows = [json.loads(line) for line in lines]
    rows = [
        {"question": row.get("question") or row.get("context"), "answer": row.get("answer") or row["target"]}
        for row in rows
    ]

    def fields(body, index):
        if body["messages"][-1]["role"] == "tool":
            return {}
        arguments = json.dumps({"expression": "(2 + 3) * 4"})
        calls = [{"id": "c", "type": "function", "function": {"name": "calculate", "arguments": arguments}}]
        return {"message": {"role": "assistant", "content": None, "tool_calls": calls}}

    _, bodies = improve("calculate", rows, lambda body, index: "So:\n20", fields, epochs=1, samples=1)
    results = {body["messages"][-1]["content"] for body in bodies if body["messages"][-1]["role"] == "tool"}
    assert results == {"20"}


def test_the_value_of_an_expression_is_in_the_second_prompt(folder):
    rows = [{"question": f"How much is {n} percent of 200?", "answer": f"{2 * n}"} for n in range(1, 9)]

    def reply(body, index):
        text = body["messages"][-1]["content"]
        percent = int(text.split()[3])
        if "write the calculation" in text:
            return f"It is `${percent} / 100 * 200`, so"
        return f"Thus\n{text.rpartition(' = ')[2].splitlines()[0]}"

    result, bodies = improve("compute", rows, reply, epochs=1, samples=1)
    assert "A calculator says: 3 / 100 * 200 = 6\n" in "".join(body["messages"][-1]["content"] for body in bodies)
    assert result.verdict == "nothing_learned"  # all are right


@pytest.mark.parametrize(
    "hostile", ["__import__('os')", "9**9**9**9", "9^9^9^9", "a" * 300, "(", "1/0", "2(3)", "(-8)^0.5"]
)
def test_what_a_model_writes_into_the_calculator_runs_nothing(hostile):
    assert _value(hostile).startswith("error")
    assert _called(json.dumps({"expression": hostile})) == _value(hostile)
    assert _called("not json").startswith("error")


@pytest.mark.parametrize(
    ("expression", "value"), [("(2 + 3) * 4", "20"), ("1.1^2", "1.21"), ("2**-1", "0.5"), (".5 * 7.", "3.5")]
)
def test_the_calculator(expression, value):
    assert _value(expression) == value
