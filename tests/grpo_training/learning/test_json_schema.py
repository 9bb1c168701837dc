"""Replies in the form of the user's own JSON schema: what is sent, how answers are read, and what is refused."""

import json

import pytest

from engine.errors import InputError
from engine.records import Completion
from engine.tasks.registry import task_named
from grpo_training import critic, generator1
from grpo_training.agents.generator import generator_messages
from grpo_training.compare.__main__ import main as compare
from grpo_training.evaluate.__main__ import main as evaluate
from grpo_training.gate import __main__ as gate
from grpo_training.improve.__main__ import main as improve
from grpo_training.improve.improved import Improved
from grpo_training.runs import folder as run_folders
from grpo_training.runs.problems import read_problems
from grpo_training.runs.run import OtherRunError
from tests.grpo_training.learning.test_answers_loop import LABELS, groups, mails, start
from tests.support.analyst import NO_LESSON, for_analyst, with_lesson
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.table import table

SCHEMA = {
    "type": "object",
    "properties": {"reasoning": {"type": "string"}, "answer": {"type": "string"}},
    "required": ["reasoning", "answer"],
}
REFUSAL = {"error": {"message": "Unsupported parameter: 'response_format'.", "param": "response_format"}}
COLLECT = ("--rollouts", 2, "--learn", "none")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folders, "WORKING_DIR", tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))


def in_objects(body, index):
    """Right for every mail in the second of two replies."""
    if for_analyst(body) or body["model"] == "analyst":
        return with_lesson("When a parcel is late, the label is shipping.") if index == 0 else NO_LESSON
    number = int(body["messages"][-1]["content"].rpartition("Mail ")[2].partition(":")[0])
    label = LABELS[number % 3]
    return json.dumps({"reasoning": "The answer is other, or billing?", "answer": label if index % 2 else "neither"})


def sent(bodies):
    """The different forms and the different instructions of the requests of a generator."""
    asked = [body for body in bodies if body["model"] == "m" and not for_analyst(body)]
    assert asked
    forms = {json.dumps(body["response_format"]) for body in asked}
    return [json.loads(form) for form in forms], {body["messages"][0]["content"] for body in asked}


def test_the_schema_is_in_the_request_and_in_the_prompt_and_the_answer_is_its_property(tmp_path):
    path = mails(tmp_path, 9)
    bodies = start(tmp_path, generator1, "--dataset", path, "--json-schema", "schema.json", *COLLECT, reply=in_objects)
    [form], [instructions] = sent(bodies)
    assert form == {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA}}
    assert list(form["json_schema"]["schema"]["properties"]) == ["reasoning", "answer"]
    assert json.dumps(SCHEMA) in instructions
    assert 'The value of "answer" is one of: billing; other; shipping.' in instructions
    assert "Answer:" not in instructions
    rollouts = [rollout for group in groups(tmp_path) for rollout in group["rollouts"]]
    assert {rollout["answer"] for rollout in rollouts if rollout["is_correct"]} == set(LABELS)
    assert sum(rollout["is_correct"] for rollout in rollouts) == 9
    again = ("--dataset", path, *COLLECT)
    assert start(tmp_path, generator1, *again, "--json-schema", "schema.json", reply=in_objects) == []
    with pytest.raises(OtherRunError, match=r"json_schema: stored schema\.json, given nothing"):
        start(tmp_path, generator1, *again, reply=in_objects)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA | {"additionalProperties": False}))
    with pytest.raises(InputError, match="another problem"):
        start(tmp_path, generator1, *again, "--json-schema", "schema.json", reply=in_objects)
    fused = start(tmp_path, critic, "--generators", "1", "--learn", "none", reply=in_objects)
    assert {body["response_format"]["json_schema"]["schema"]["type"] for body in fused} == {"object"}
    assert not any("Answer:" in body["messages"][0]["content"] for body in fused)


def test_a_server_that_refuses_schemas_has_it_in_the_prompt(tmp_path):
    def refuse(body):
        return (400, REFUSAL) if "response_format" in body else None

    path, app = mails(tmp_path, 3), chat_app(in_objects, refuse=refuse)
    with serve_in_thread(app) as url:
        entry = {"default": {"api_key": "EMPTY", "base_url": url, "model": "m"}}
        (tmp_path / "api.json").write_text(json.dumps(entry))
        words = ("--api-config", "api.json", "--cache-dir", "cache", "--experiences-dir", "experiences")
        flags = ("--dataset", path, "--json-schema", "schema.json", *COLLECT, *words)
        assert generator1.main([str(flag) for flag in flags]) == 0
    answered = [request.body for request in app["seen"] if "response_format" not in request.body]
    assert all(json.dumps(SCHEMA) in body["messages"][0]["content"] for body in answered)
    assert sum(rollout["is_correct"] for group in groups(tmp_path) for rollout in group["rollouts"]) == 3


def test_an_unreadable_reply_is_asked_for_again_as_an_object(tmp_path):
    def reply(body, index):
        if "could not be read" not in body["messages"][-1]["content"]:
            return "I have to think about this one for a while.\n\nIt may be one or the other:\n\n" + "so " * 80
        assert "Answer:" not in body["messages"][-1]["content"]
        return '{"reasoning": "", "answer": "billing"}'

    path = mails(tmp_path, 3)
    start(tmp_path, generator1, "--dataset", path, "--json-schema", "schema.json", *COLLECT, reply=reply)
    assert {rollout["answer"] for group in groups(tmp_path) for rollout in group["rollouts"]} == {"billing"}


def test_evaluate_compare_gate_and_improve_send_the_schema(tmp_path, capsys):
    mails(tmp_path, 12)
    app = chat_app(in_objects)
    with serve_in_thread(app) as url:
        shared = ("--base-url", url, "--model", "m", "--dataset", "./mails.csv", "--json-schema", "schema.json")
        evaluate([*shared, "--num-samples", "2", "--k-values", "1", "--output", "figures.json"])
        compare([*shared, "--prompt-b", "compact", "--samples", "2"])
        improve([*shared, "--run", "mails", "--epochs", "1", "--samples", "2", "--cases", "0"])
        before = len(app["seen"])
        of_run = ("--base-url", url, "--model", "m", "--run", "mails", "--dataset", "./mails.csv", "--samples", "4")
        gate.main(list(of_run))
        assert len(app["seen"]) > before
    forms, instructions = sent([request.body for request in app["seen"]])
    assert len(forms) == 1
    assert not any("Answer:" in text for text in instructions)
    assert "--json-schema schema.json" in capsys.readouterr().out  # the gate has it from the run
    improved = Improved.load(tmp_path / "runs/mails/improved")
    assert json.dumps(SCHEMA) in improved.messages("Mail 99: where is it?")[0]["content"]
    assert improved.answer('{"reasoning": "It is not here.", "answer": "Shipping"}') == "shipping"
    assert [improved.result.response_format] == forms
    readme = (tmp_path / "runs/mails/improved/README.md").read_text()
    assert "response_format=improved.result.response_format)" in readme


def test_a_form_that_the_server_does_not_take_is_not_taken_home(tmp_path):
    def refuse(body):
        return (400, REFUSAL) if "response_format" in body else None

    mails(tmp_path, 12)
    app = chat_app(in_objects, refuse=refuse)
    with serve_in_thread(app) as url:
        flags = ("--base-url", url, "--model", "m", "--dataset", "./mails.csv", "--json-schema", "schema.json")
        improve([*flags, "--run", "mails", "--epochs", "1", "--samples", "2", "--cases", "0"])
    assert Improved.load(tmp_path / "runs/mails/improved").result.response_format is None
    assert "response_format" not in (tmp_path / "runs/mails/improved/README.md").read_text()


def problems(tmp_path, rows, schema, **options):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "schema.json").write_text(schema if isinstance(schema, str) else json.dumps(schema))

    class Settings:
        dataset, fields, columns, max_problems = "./rows.jsonl", None, None, None
        compare, task, json_schema = options.get("compare"), options.get("task"), tmp_path / "schema.json"

    return read_problems(Settings).problems


@table(
    ("answer", "compare", "properties", "reply", "is_correct"),
    [
        ({"name": "Ann", "age": 3}, None, ["why", "name", "age"], {"why": "So.", "name": "ann", "age": 3}, True),
        ({"name": "Ann", "age": 3}, None, ["why", "name", "age"], {"why": "So.", "name": "ann", "age": 4}, False),
        ({"name": "Ann", "age": 3}, None, ["why", "answer"], {"why": "So.", "answer": {"name": "Ann", "age": 3}}, True),
        (["red", "blue"], "set", ["answer"], {"answer": ["blue", "red"]}, True),
        (["red", "blue"], "set", ["answer"], {"answer": ["blue"]}, False),
        ("3 h", None, ["answer"], {"answer": "180 min"}, True),
        (7, "number", ["why", "answer"], {"why": "The answer is 8, no: 7.", "answer": 7}, True),
        ("2026-03-04", "date", ["answer"], {"answer": "4 March 2026"}, True),
    ],
)
def test_answers_of_each_kind_are_read_from_the_object(tmp_path, answer, compare, properties, reply, is_correct):
    rows = [{"question": f"Which, {n}?", "answer": answer} for n in range(3)]
    schema = {"type": "object", "properties": {name: {} for name in properties}}
    problem, task = problems(tmp_path, rows, schema, compare=compare)[0], task_named("answers")
    for text in (json.dumps(reply), f"<think>Hm.</think>```json\n{json.dumps(reply, indent=1)}\n```"):
        candidate = task.parse(Completion(text=text), problem)
        assert task.evaluate(candidate, problem).is_correct is is_correct


def test_yes_and_no_are_booleans_and_prompts_in_chinese_show_the_schema(tmp_path):
    rows = [{"question": f"Is {n} even?", "answer": n % 2 == 0} for n in range(6)]
    problem, task = problems(tmp_path, rows, SCHEMA)[0], task_named("answers")
    assert task.evaluate(task.parse(Completion(text='{"answer": true}'), problem), problem).is_correct
    assert not task.evaluate(task.parse(Completion(text='{"answer": false}'), problem), problem).is_correct
    for style, words in (
        ("zh", "符合下列 JSON 模式"),
        ("compact", "fits this JSON schema"),
        ("full", "one of: no; yes"),
    ):
        [system, _] = generator_messages(task, problem, (), style)
        assert words in system.content
        assert json.dumps(SCHEMA) in system.content
        assert "Answer:" not in system.content


@table(
    ("schema", "what"),
    [
        ("{", "cannot read .* as JSON"),
        ([SCHEMA], "is no JSON schema of an object"),
        ({"name": "reply", "schema": SCHEMA}, "is no JSON schema of an object"),
        ({"type": "json_schema", "json_schema": {}}, "is no JSON schema of an object"),
        ({"type": "object", "properties": ["answer"]}, "is no JSON schema of an object"),
        ({"type": "object", "properties": {"label": {}}}, "has no property 'answer'"),
    ],
)
def test_a_file_that_is_no_schema_of_the_answers_is_refused(tmp_path, schema, what):
    with pytest.raises(InputError, match=what):
        problems(tmp_path, [{"question": "Which?", "answer": "this one"}], schema)


def test_other_tasks_have_no_schema_of_the_user(tmp_path):
    rows = [{"problem": "How much is $1 + 1$?", "answer": "2"}]
    with pytest.raises(
        InputError, match="--json-schema is for questions and answers, and rows_001 is of the task math"
    ):
        problems(tmp_path, rows, SCHEMA)
    assert problems(tmp_path, rows, SCHEMA, task="answers")
    (tmp_path / "schema.json").unlink()
    with pytest.raises(InputError, match="cannot read"):
        evaluate(["--dataset", "rows.jsonl", "--task", "answers", "--json-schema", "schema.json", "--dry-run"])
