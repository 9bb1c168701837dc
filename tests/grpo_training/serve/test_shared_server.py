"""One server for several processes."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import nullcontext

import pytest

from engine.errors import FatalEndpointError
from grpo_training.learning.settings import GeneratorSettings
from grpo_training.serve import local_server
from grpo_training.serve import shared_server as module
from grpo_training.serve.endpoints import open_endpoints
from grpo_training.serve.engines import TRANSFORMERS, VLLM
from grpo_training.serve.local_server import LocalServer, is_up
from grpo_training.serve.shared_server import shared_server
from tests.conftest import ROOT
from tests.support.stand_in_engine import StandInEngine

LOCAL = LocalServer("http://127.0.0.1:1/v1", "m", (), lambda: False).endpoint()
_PROCESS = """
import sys
from pathlib import Path
from grpo_training.serve import shared_server
from tests.support.stand_in_engine import StandInEngine
role, model = sys.argv[1], Path(sys.argv[2])
if role == "keep":
    sys.exit(shared_server.keep(model, float(sys.argv[3]), int(sys.argv[4]), StandInEngine()))
with shared_server.shared_server(model, engine=StandInEngine()) as server:
    print(server["base_url"], flush=True)
    sys.stdin.read()
"""


def test_processes_share_one_server_until_the_last_one_leaves(model, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    keeper = [sys.executable, "-c", _PROCESS, "keep"]
    with shared_server(model, engine=StandInEngine(), keeper=keeper) as mine:
        other = subprocess.Popen(
            [sys.executable, "-c", _PROCESS, "use", str(model)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        assert other.stdout.readline().strip() == mine["base_url"]
    time.sleep(1.0)
    assert is_up(mine["base_url"])  # the other process still uses it
    other.communicate("")
    deadline = time.monotonic() + 30
    while is_up(mine["base_url"]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_up(mine["base_url"])


def test_a_start_whose_user_is_killed_is_joined(model, monkeypatch, tmp_path):
    """Two starts would load the model twice, and the first server would run until the second ends."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    starts = tmp_path / "starts"
    slow = f"import time; open({str(starts)!r}, 'a').write('x'); time.sleep(3)\n{_PROCESS}"
    keeper = [sys.executable, "-c", slow, "keep"]
    user = (
        "import json, sys\nfrom pathlib import Path\nfrom grpo_training.serve.shared_server import shared_server\n"
        "from tests.support.stand_in_engine import StandInEngine\n"
        "with shared_server(Path(sys.argv[1]), engine=StandInEngine(), keeper=json.loads(sys.argv[2])): pass\n"
    )
    killed = subprocess.Popen([sys.executable, "-c", user, str(model), json.dumps(keeper)])
    deadline = time.monotonic() + 60
    while not starts.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    killed.kill()
    killed.wait()
    with shared_server(model, engine=StandInEngine(), keeper=keeper) as server:
        assert is_up(server["base_url"])
    assert starts.read_text() == "x"


def test_the_name_of_the_model_is_known_without_the_server(model, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    name = local_server.served_name(model)
    with shared_server(model, engine=StandInEngine(), keeper=[sys.executable, "-c", _PROCESS, "keep"]) as server:
        assert server["model"] == name


@pytest.mark.parametrize(("engine", "expected"), [(TRANSFORMERS, 0.3), (VLLM, 1.0)])
@pytest.mark.parametrize("is_in_the_file", [True, False])
def test_a_run_is_served_at_the_temperature_that_its_records_name(
    model, monkeypatch, tmp_path, engine, expected, is_in_the_file
):
    """An engine with one temperature for all requests gets that of the run."""
    served_at = []

    def running(files):
        served_at.append((files.model, files.temperature))
        return LOCAL

    monkeypatch.setattr(module, "choose_engine", lambda: engine)
    monkeypatch.setattr(module._ServerFiles, "running", running)
    entry = {"api_key": "EMPTY", "base_url": "local", "model": str(model)}
    config = tmp_path / "api_config.json"
    config.write_text(json.dumps({"generator_1": entry, "analyst": entry}))
    endpoint = "config" if is_in_the_file else "local"
    settings = GeneratorSettings(temperature=0.3, api_config=config, endpoint=endpoint, model=str(model))
    with open_endpoints(settings) as manager:
        assert manager.endpoint("generator_1").base_url == "http://127.0.0.1:1/v1"
    assert served_at == [(model, expected)]


@pytest.mark.parametrize(("prompts", "is_told"), [("full", True), ("compact", True), ("pocket", False)])
def test_a_run_tells_that_the_pocket_model_does_not_know_its_prompts(monkeypatch, capsys, prompts, is_told):
    monkeypatch.setattr(
        "grpo_training.serve.shared_server.shared_server", lambda model, temperature: nullcontext(LOCAL)
    )
    with open_endpoints(GeneratorSettings(endpoint="local", prompts=prompts)):
        assert ("knows the prompts of --prompts pocket only" in capsys.readouterr().out) == is_told


def test_the_pocket_model_gets_its_own_prompts_and_sampling_unless_prompts_are_given():
    def asked(**given):
        settings = GeneratorSettings(**given).for_its_model()
        return settings.prompts, settings.temperature, settings.max_tokens, settings.cases

    assert asked(endpoint="local") == ("pocket", 1.0, 256, 0)
    assert asked(endpoint="local", prompts="pocket") == ("pocket", 1.0, 256, 0)
    assert asked(endpoint="local", temperature=0.5, cases=2) == ("pocket", 0.5, 256, 2)
    assert asked(endpoint="local", prompts="full")[0] == "full"
    assert asked(endpoint="local", prompts="compact")[2] is None
    assert asked(endpoint="local", model="another")[0] == "full"
    assert asked()[0] == "full"


def test_the_error_of_a_run_names_the_last_line_of_a_server_that_died(model, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    keeper = [sys.executable, "-c", _PROCESS, "keep"]

    def run():
        with shared_server(model, engine=StandInEngine(), keeper=keeper) as server:
            with urllib.request.urlopen(server["base_url"].removesuffix("/v1")) as answer:
                os.kill(json.load(answer)["pid"], signal.SIGKILL)
            deadline = time.monotonic() + 60
            while is_up(server["base_url"]) and time.monotonic() < deadline:
                time.sleep(0.05)
            raise FatalEndpointError("no answer", why="connection refused")

    with pytest.raises(
        FatalEndpointError, match=r"(?s)^no answer\n.* has exited.\nThe last line of .*: asked 1.0\n"
    ) as caught:
        run()
    assert "If it exits again: Use --engine transformers." in caught.value.fix
