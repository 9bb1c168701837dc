"""Runs from start to verdict on servers that refuse parameters, hide replies behind a policy, or cut prompts."""

import json
import re

import pytest

from engine.errors import IncompleteRunError
from engine.llm import notices
from grpo_training import critic, generator1
from grpo_training.evaluate import __main__ as evaluate_command
from grpo_training.gate import __main__ as gate_command
from grpo_training.improve import __main__ as improve
from grpo_training.runs import folder as run_folders
from tests.support.analyst import for_analyst
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.planted_answers import PlantedServer

WORDINGS = (
    (400, {"error": {"message": "Invalid prompt: your prompt was flagged.", "code": "invalid_prompt"}}),
    (400, {"error": {"message": "我们不回答这个问题", "code": "1301"}}),
    (403, {"error": {"message": "The terms of use forbid this request"}}),
    (200, {"choices": [{"index": 0, "finish_reason": "content_filter: PROHIBITED_CONTENT"}]}),
    (500, {"error": "the input length exceeds the context length"}),
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working folder."""
    monkeypatch.setattr(run_folders, "WORKING_DIR", tmp_path)
    monkeypatch.setattr(notices, "_told", set())
    return tmp_path


def asked_of(app, *runs, path, model="m"):
    """Run commands against a server; the bodies of the requests of each."""
    bodies = []
    with serve_in_thread(app) as url:
        for command, *flags in runs:
            before = len(app["seen"])
            words = ["--base-url", url, "--model", model, "--api-config", path / "none.json", *flags]
            assert command([str(word) for word in words]) == 0
            bodies.append([request.body for request in app["seen"][before:]])
    return bodies


def planted(kind="label", numbers=range(24), path=None):
    server = PlantedServer(kind, 0.5)
    rows = server.rows(numbers)
    (path / "mails.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return server


def reply(server):
    """The replies of a planted server in all roles, also to the neutral request."""

    def answer(body, index):
        text = body["messages"][-1]["content"]
        if "Reply with the word" in text:
            return "ready"
        # one model has all roles
        return server.reply({**body, "model": "analyst"} if for_analyst(body) else body, index)

    return answer


def is_sampling(body):
    return not {"temperature", "top_p", "seed", "max_tokens", "n", "response_format"}.isdisjoint(body)


def test_a_model_that_takes_no_sampling_parameters_gets_from_start_to_verdict_in_all_roles(folder, capsys):
    server = planted(path=folder)
    app = chat_app(
        reply(server),
        rejects=("temperature", "top_p", "seed", "max_tokens", "n", "response_format", "stop", "logprobs"),
    )
    flags = ("--dataset", folder / "mails.jsonl", "--top-p", "0.9", "--max-tokens", "400", "--run", "r")
    [bodies] = asked_of(app, (improve.main, *flags, "--epochs", "3"), path=folder)
    result = json.loads((folder / "runs/r/improved/result.json").read_text())
    assert result["verdict"] == "adopted"
    output = capsys.readouterr().out
    assert output.count("does not take temperature: it is left out") == 1
    refused = [number for number, body in enumerate(bodies) if is_sampling(body)]
    assert len(refused) < 60  # those in flight when the first of them were refused
    assert not [body for body in bodies[len(bodies) // 3 :] if {"temperature", "top_p", "max_tokens"} & body.keys()]


def refusing(numbers):
    """Each of these cases is refused, each in other words."""

    def refuse(body):
        cases = re.findall(r"case (\d+)", body["messages"][-1]["content"])
        if cases and int(cases[-1]) in numbers:
            return WORDINGS[int(cases[-1]) % len(WORDINGS)]
        return None

    return refuse


def test_problems_that_a_policy_hides_stay_open_and_the_second_start_asks_only_these(folder, capsys):
    server, hidden = planted(path=folder), {3, 11, 14, 17, 20}
    app = chat_app(reply(server), refuse=refusing(hidden))
    flags = ("--dataset", folder / "mails.jsonl", "--run", "r", "--attempts", "2", "--retry-minutes", "0.05")
    command = (improve.main, *flags, "--epochs", "1", "--cases", "0")
    first, second = asked_of(app, command, command, path=folder)
    output = capsys.readouterr().out
    assert re.search(r"open problems +5; the same command asks for these again", output)
    assert "Invalid prompt: your prompt was flagged" in output
    assert "The terms of use forbid this request" in output
    assert "我们不回答这个问题" in output
    groups = [
        json.loads(line) for line in (folder / "runs/r/cache/generator_1_rollouts.jsonl").read_text().splitlines()
    ]
    assert len(groups) == 24 - len(hidden)
    assert len(second) < len(first) / 4
    asked = {int(case) for body in second for case in re.findall(r"case (\d+)", body["messages"][-1]["content"])[-1:]}
    assert asked <= hidden


def test_the_critic_an_evaluation_and_a_gate_go_on_too(folder, capsys):
    server, hidden = planted(path=folder), {5, 8}
    app = chat_app(reply(server), refuse=refusing(hidden))
    data = ("--dataset", folder / "mails.jsonl", "--attempts", "2", "--retry-minutes", "0.05")
    with serve_in_thread(app) as url:
        where = ["--base-url", url, "--model", "m", "--api-config", folder / "none.json"]

        def run(command, *flags):
            before = len(app["seen"])
            assert command([str(word) for word in (*where, *flags)]) == 0
            return len(app["seen"]) - before

        run(generator1.main, *data, "--run", "r", "--epochs", "2")
        run(critic.main, "--run", "r", "--generators", "1", "--learn", "none", *data[2:])
        evaluation = (*data[:2], "--role", "generator_1", "--num-samples", "4", "--output", folder / "results.json")
        first = run(evaluate_command.main, *evaluation)
        assert json.loads((folder / "results.json").read_text())["num_tasks"] == 22
        assert run(evaluate_command.main, *evaluation) < first / 3
        capsys.readouterr()
        first = run(gate_command.main, *data, "--run", "r", "--samples", "4", "--ask-all")
        output = capsys.readouterr().out
        assert "2 problems are open and left out" in output
        assert "on 22 of 24 problems" in output
        assert run(gate_command.main, *data, "--run", "r", "--samples", "4", "--ask-all") < first / 3


def test_a_run_of_which_nothing_is_answered_is_not_a_success(folder):
    server = planted(path=folder)
    app = chat_app(reply(server), refuse=refusing(range(100)))
    with pytest.raises(IncompleteRunError, match="answered none of the problems"):
        asked_of(
            app, (generator1.main, "--dataset", folder / "mails.jsonl", "--run", "r", "--attempts", "1"), path=folder
        )


def test_a_server_that_cuts_prompts_is_told_once_in_all_steps_of_a_run(folder, capsys):
    server = PlantedServer("label", 0.5)
    rows = [{**row, "question": f"{'Much is said here. ' * 900} {row['question']}"} for row in server.rows(range(16))]
    (folder / "mails.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    app = chat_app(reply(server), prompt_tokens=lambda body: 1025)
    asked_of(app, (improve.main, "--dataset", folder / "mails.jsonl", "--run", "r", "--epochs", "1"), path=folder)
    assert capsys.readouterr().out.count("num_ctx of Ollama") == 1
