"""The endpoints of a run: servers of local models, and the settings that they need."""

import json
import os
import signal
import time
import urllib.request
from contextlib import nullcontext

import pytest

from engine.errors import ConfigurationError, FatalEndpointError
from grpo_training.learning.settings import GeneratorSettings
from grpo_training.serve import local_server as module
from grpo_training.serve.endpoints import named_endpoints, open_endpoints
from grpo_training.serve.local_server import LocalServer
from tests.support.stand_in_engine import StandInEngine

LOCAL = LocalServer("http://127.0.0.1:1/v1", "m", (), lambda: False)


@pytest.mark.parametrize("is_in_the_file", [True, False])
def test_a_run_is_served_at_the_temperature_that_its_records_name(model, monkeypatch, tmp_path, is_in_the_file):
    served_at = []

    def serve(folder, temperature):
        served_at.append((folder, temperature))
        return nullcontext(LOCAL)

    monkeypatch.setattr(module, "local_server", serve)
    entry = {"api_key": "EMPTY", "base_url": "local", "model": str(model)}
    config = tmp_path / "api_config.json"
    config.write_text(json.dumps({"generator_1": entry, "analyst": entry}))
    endpoint = "config" if is_in_the_file else "local"
    settings = GeneratorSettings(temperature=0.3, api_config=config, endpoint=endpoint, model=str(model))
    with open_endpoints(settings) as manager:
        assert manager.endpoint("generator_1").base_url == "http://127.0.0.1:1/v1"
    assert served_at == [(model, 0.3)]


def test_the_name_of_the_model_is_known_without_the_server(model, monkeypatch):
    monkeypatch.setattr(module, "choose_engine", StandInEngine)
    settings = GeneratorSettings(endpoint="local", model=str(model))
    with open_endpoints(settings) as manager:
        assert manager.endpoint("generator_1").model == named_endpoints(settings).endpoint("generator_1").model


@pytest.mark.parametrize(("prompts", "is_told"), [("full", True), ("compact", True), ("pocket", False)])
def test_a_run_tells_that_the_pocket_model_does_not_know_its_prompts(monkeypatch, capsys, prompts, is_told):
    monkeypatch.setattr(module, "local_server", lambda model, temperature: nullcontext(LOCAL))
    with open_endpoints(GeneratorSettings(endpoint="local", prompts=prompts)):
        assert ("knows the prompts of --prompts pocket only" in capsys.readouterr().out) == is_told


def test_the_pocket_model_gets_its_own_prompts_and_sampling_unless_prompts_are_given():
    def asked(**fields):
        settings = GeneratorSettings(**fields).for_its_model()
        return settings.prompts, settings.temperature, settings.max_tokens, settings.cases

    assert asked(endpoint="local") == ("pocket", 1.0, 256, 0)
    assert asked(endpoint="local", prompts="pocket") == ("pocket", 1.0, 256, 0)
    assert asked(endpoint="local", temperature=0.5, cases=2) == ("pocket", 0.5, 256, 2)
    assert asked(endpoint="local", prompts="full")[0] == "full"
    assert asked(endpoint="local", prompts="compact")[2] is None
    assert asked(endpoint="local", model="another")[0] == "full"
    assert asked()[0] == "full"


def test_the_error_of_a_run_names_the_last_line_of_a_server_that_died(model, monkeypatch):
    monkeypatch.setattr(module, "choose_engine", lambda: StandInEngine(otherwise="Use --engine transformers."))

    def run():
        with open_endpoints(GeneratorSettings(endpoint="local", model=str(model), temperature=0.3)) as manager:
            url = manager.endpoint("generator_1").base_url
            with urllib.request.urlopen(url.removesuffix("/v1")) as answer:
                os.kill(json.load(answer)["pid"], signal.SIGKILL)
            deadline = time.monotonic() + 60
            while module.is_up(url) and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(0.5)  # the process beside it ends too
            raise FatalEndpointError("no answer", why="connection refused")

    with pytest.raises(ConfigurationError, match=r"(?s) has exited\nThe last line of .*: asked 0.3\n") as caught:
        run()
    assert "If it exits again: Use --engine transformers." in caught.value.fix
