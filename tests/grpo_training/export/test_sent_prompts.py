"""Every format writes the prompts that were sent, compared with the journal and with what a server received."""

import hashlib
import json
import sqlite3

import pytest

from engine.llm.journal import request_keys
from engine.records import ChatRequest, Message, RolloutGroup
from engine.tasks.registry import task_named
from grpo_training import generator1
from grpo_training.export import __main__ as export
from tests.support.analyst import with_lesson
from tests.support.fault_server import chat_app, serve_in_thread

pytest.importorskip("datasets")
TRL = ("trl-sft", "trl-dpo", "trl-kto", "trl-grpo")


def digest(messages):
    return hashlib.sha256(json.dumps([[turn["role"], turn["content"]] for turn in messages]).encode()).hexdigest()[:20]


def reply_to(body, index):
    """A scaffold that names the prompt which it answers; one reply of a problem is unreadable at first."""
    messages = body["messages"]
    if body["model"] == "analyst":
        lesson = f"When rows of books are counted, check {digest(messages)} first."
        return with_lesson(lesson)
    if index == 0 and len(messages) == 2:
        return "I would rather not."
    question = messages[1]["content"].rpartition("Problem:")[2]
    number = next(n for n in range(2, 10) if f"{n} rows of" in question)
    rule, answer = ("rows * each", number * 4) if index % 2 else ("rows + each", number + 4)
    return json.dumps(
        {
            "target_variable": "books",
            "knowns": {"rows": number, "each": 4},
            "causal_graph": [{"cause": ["rows", "each"], "effect": "books", "rule": f"books = {rule}"}],
            "computation_plan": [],
            "problem_model": f"prompt {digest(messages)} sample {index}",
            "final_answer": str(answer),
        }
    )


@pytest.fixture(scope="module", params=["full", "compact"])
def run(request, tmp_path_factory):
    """A run in a style, whose later prompts have experiences, in two halves."""
    folder = tmp_path_factory.mktemp("run")
    rows = [{"problem": f"A shelf holds {n} rows of 4 books. How many?", "answer": str(4 * n)} for n in range(2, 8)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    app = chat_app(reply_to)
    with serve_in_thread(app) as url:
        entry = {"api_key": "EMPTY", "base_url": url, "model": "m"}
        (folder / "api.json").write_text(json.dumps({"generator_1": entry, "analyst": entry | {"model": "analyst"}}))
        flags = ["--dataset", folder / "rows.jsonl", "--task", "math", "--rollouts", 8, "--window", 2]
        places = ["--api-config", folder / "api.json", "--cache-dir", folder / "cache"]
        places += ["--experiences-dir", folder / "experiences"]
        assert generator1.main([*map(str, flags), *map(str, places), "--prompts", request.param]) == 0
    return folder, [call.body for call in app["seen"]], request.param


def exported(folder, form, *more):
    output = folder / f"out-{form}{''.join(more)}.jsonl"
    assert export.main([str(folder / "cache"), "--to", form, "--output", str(output), *more]) == 0
    return [json.loads(line) for line in output.read_text().splitlines()]


def pairs(form, row):
    """The prompt of a row, with each text that is written as a reply to it."""
    if form == "trl-grpo":
        return row["prompt"], row["completions"]
    return row["prompt"], [row[name][0]["content"] for name in ("completion", "chosen", "rejected") if name in row]


@pytest.mark.parametrize("form", TRL)
def test_exported_prompts_are_those_that_were_sent(run, form):
    folder, bodies, _ = run
    sent = {digest(body["messages"]) for body in bodies if body["model"] == "m"}
    groups = [
        RolloutGroup.model_validate_json(line)
        for line in (folder / "cache/generator_1_rollouts.jsonl").read_text().splitlines()
    ]
    repairs = {rollout.completion.text: rollout.repairs for group in groups for rollout in group.rollouts}
    sampling = groups[0].policy.sampling
    with sqlite3.connect(folder / "cache/requests.sqlite") as journal:
        stored = {json.loads(text)["text"]: key for key, text in journal.execute("SELECT key, completion FROM replies")}
    prompts = set()
    with_experiences = with_cases = 0
    for row in exported(folder, form):
        prompt, replies = pairs(form, row)
        prompts.add(digest(prompt))
        messages = tuple(Message(role=message["role"], content=message["content"]) for message in prompt)
        with_experiences += "check" in "".join(message.content for message in messages)
        with_cases += "Solved problems" in messages[1].content
        request = ChatRequest(
            role="generator_1", messages=messages, sampling=sampling, json_schema=task_named("math").reply_schema
        )
        keys = request_keys(request, "m", {}, range(64))
        for text in replies:
            assert "re_asked" not in repairs[text]
            assert f"prompt {digest(prompt)}" in text
            assert stored[text] in keys
    assert ["re_asked"] in repairs.values()
    assert prompts <= sent
    assert len(prompts) > 6, "prompts of two halves"
    assert with_experiences > 0
    assert with_cases > 0


@pytest.mark.parametrize("flags", [("--prompts", "full"), ("--strip-experiences",)])
def test_prompts_of_another_style_are_built_anew_without_experiences(run, flags):
    folder, _, style = run
    written = [row["prompt"] for row in exported(folder, "trl-grpo", *flags)]
    sent = [row["prompt"] for row in exported(folder, "trl-grpo")]
    is_sent_style = style == "full" or "--prompts" not in flags
    assert any(prompt in sent for prompt in written) is is_sent_style
    if style == "full" and "--prompts" in flags:
        assert [prompt for prompt in written if prompt in sent] == sent
    else:
        assert not any("When rows of books" in str(prompt) or "Solved problems" in str(prompt) for prompt in written)


def test_changed_templates_change_no_exported_prompt(run, tmp_path):
    folder, *_ = run
    (tmp_path / "cache").mkdir()
    lines = (folder / "cache/generator_1_rollouts.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    for record in records:
        record["policy"]["prompt_hash"] = "0" * 12
    content = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "cache/generator_1_rollouts.jsonl").write_text(content)
    assert exported(tmp_path, "trl-grpo") == exported(folder, "trl-grpo")


def test_prompts_that_are_not_stored_are_built(run, tmp_path):
    folder, *_ = run
    (tmp_path / "cache").mkdir()
    lines = (folder / "cache/generator_1_rollouts.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    for record in records:
        del record["prompts"]
    content = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "cache/generator_1_rollouts.jsonl").write_text(content)
    assert len(exported(tmp_path, "trl-grpo")) == len(exported(folder, "trl-grpo"))
