"""``--base-url`` and ``--model``: one endpoint runs everything, without a configuration file."""

import json

import pytest

from engine.errors import ConfigurationError, FatalEndpointError, InputError, MissingInputError
from grpo_training import critic, experience_extractor, generator1
from grpo_training.evaluate import __main__ as evaluate
from tests.support.analyst import for_analyst
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.main_loop import GENERATOR_COMMANDS
from tests.support.quickstart_model import learner_reply


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """All three generators, the critic, the extractor and an evaluation, each with flags alone."""
    folder = tmp_path_factory.mktemp("run")
    app = chat_app(learner_reply)
    with serve_in_thread(app) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MY_KEY", "sk-test-one-key-for-all")
        endpoint = ["--base-url", url, "--model", "one", "--api-key-env", "MY_KEY"]
        style = ["--prompts", "compact"]
        places = ["--cache-dir", str(folder / "cache"), "--experiences-dir", str(folder / "experiences"), *style]
        absent = ["--api-config", str(folder / "absent/api_config.json"), *endpoint]
        for command in GENERATOR_COMMANDS:
            assert command(["--dataset", "quickstart", "--max-problems", "5", *places, *absent]) == 0
        assert critic.main([*places, *absent]) == 0
        again = ["--cache-dir", str(folder / "cache"), "--experiences-dir", str(folder / "again"), *style]
        assert experience_extractor.main([*again, *absent]) == 0
        figures = ["--output", str(folder / "figures.json"), "--dataset", "quickstart", "--max-problems", "3"]
        assert evaluate.main([*figures, "--num-samples", "2", "--k-values", "1", *style, *absent]) == 0
    return folder, app["seen"]


def test_the_generators_and_the_critic_learn_from_one_endpoint(run):
    folder, requests = run
    for number in (1, 2, 3):
        lines = (folder / f"cache/generator_{number}_rollouts.jsonl").read_text().splitlines()
        assert len(lines) == 5
        assert json.loads((folder / f"experiences/generator_{number}_experiences.json").read_text())
    assert len((folder / "cache/critic_results.jsonl").read_text().splitlines()) == 15
    assert json.loads((folder / "again/generator_1_experiences.json").read_text())
    assert json.loads((folder / "figures.json").read_text())
    assert {request.body["model"] for request in requests} == {"one"}


def test_no_judge_is_asked_unless_it_is_configured(run):
    _, requests = run
    assert any(for_analyst(request.body) for request in requests)
    assert not any(request.body["messages"][0]["content"].startswith("You judge") for request in requests)


def start(tmp_path, *flags):
    places = ["--cache-dir", str(tmp_path / "cache"), "--experiences-dir", str(tmp_path / "experiences")]
    fixed = ["--dataset", "quickstart", "--max-problems", "1", "--prompts", "compact", "--attempts", "1"]
    return generator1.main([*fixed, *places, *flags])


def test_flags_that_do_not_describe_an_endpoint_are_refused(tmp_path):
    with pytest.raises(InputError, match="--base-url needs --model"):
        start(tmp_path, "--base-url", "http://127.0.0.1:1/v1")
    with pytest.raises(InputError, match="exclude each other"):
        start(tmp_path, "--base-url", "http://127.0.0.1:1/v1", "--model", "m", "--endpoint", "local")
    with pytest.raises(ConfigurationError, match="NO_SUCH_KEY"):
        start(tmp_path, "--base-url", "http://127.0.0.1:1/v1", "--model", "m", "--api-key-env", "NO_SUCH_KEY")


def test_without_a_file_and_flags_the_error_names_the_flags(tmp_path):
    with pytest.raises(MissingInputError) as caught:
        start(tmp_path, "--api-config", str(tmp_path / "new folder/api_config.json"))
    assert "--base-url URL --model NAME" in caught.value.fix
    assert f"mkdir -p '{tmp_path}/new folder'" in caught.value.fix


def test_a_refused_key_names_the_flags(tmp_path):
    app = chat_app(learner_reply, api_key="sk-another-key-that-is-right")
    with serve_in_thread(app) as url, pytest.raises(FatalEndpointError) as caught:
        start(tmp_path, "--base-url", url, "--model", "m")
    assert "--api-key-env" in caught.value.fix


def test_the_model_flag_alone_replaces_the_model_of_every_role_of_the_file(tmp_path):
    config, app = tmp_path / "api_config.json", chat_app(learner_reply)
    with serve_in_thread(app) as url:
        entry = {"api_key": "EMPTY", "base_url": url, "model": "of the file"}
        config.write_text(json.dumps({"default": entry, "analyst": {"model": "large"}}))
        assert start(tmp_path, "--api-config", str(config), "--model", "given") == 0
    assert {request.body["model"] for request in app["seen"]} == {"given"}


def test_the_figures_name_no_address_and_no_variable(run):
    folder, _ = run
    assert not {"base_url", "api_key_env"} & set(json.loads((folder / "figures.json").read_text())["settings"])
    stored = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert b"sk-test-one-key" not in stored


@pytest.mark.parametrize(
    ("command", "flags", "message"),
    [
        (generator1, ["--dataset", "quikstart"], "Unknown dataset: 'quikstart'"),
        (generator1, ["--dataset", "quickstart", "--resume"], "No run to resume in"),
        (generator1, ["--dataset", "quickstart", "--task", "p.jsonl:TASK"], "Cannot import p.jsonl"),
        (generator1, ["--dataset", "quickstart", "--model", "gpt-4o"], "No model in gpt-4o"),
        (critic, [], "Rollouts file not found"),
        (experience_extractor, [], "Rollouts file not found"),
    ],
)
def test_wrong_input_is_refused_before_a_local_server_is_started(command, flags, message, tmp_path, monkeypatch):
    server = "grpo_training.serve.local_server.local_server"
    monkeypatch.setattr(server, lambda *arguments, **options: pytest.fail("a server was started"))
    places = ["--cache-dir", str(tmp_path / "cache"), "--experiences-dir", str(tmp_path / "experiences")]
    with pytest.raises((InputError, MissingInputError), match=message):
        command.main(["--endpoint", "local", "--prompts", "compact", *places, *flags])
    assert list(tmp_path.iterdir()) == []
