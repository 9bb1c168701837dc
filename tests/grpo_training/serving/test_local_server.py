"""The life of a local server, with a small stand-in for the engine's program."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.errors import ConfigurationError, MissingInputError
from grpo_training.learning.endpoints import open_endpoints
from grpo_training.learning.settings import GeneratorSettings
from grpo_training.serving import local_server as module
from grpo_training.serving import shared_server as shared_module
from grpo_training.serving.local_server import LocalServer, choose_engine, is_up, local_server
from grpo_training.serving.shared_server import shared_server
from tests.conftest import ROOT

STAND_IN = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
port, behaviour = int(sys.argv[1]), sys.argv[2]
if behaviour == "dies":
    sys.exit("no such architecture")
class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args): pass
    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def do_GET(self): self.answer(200, {"threads": os.environ.get("OMP_NUM_THREADS"), "pid": os.getpid()})
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print("asked", body["temperature"], flush=True)
        self.answer(400 if behaviour == "refuses" else 200, {"model": body["model"]})
HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@dataclass(frozen=True)
class StandIn:
    name: str = "stand-in"
    never_send: tuple = ("n",)
    behaviour: str = "serves"
    has_one_sampling: bool = True

    def command(self, model, adapter, port):
        return [sys.executable, "-c", STAND_IN, str(port), self.behaviour]

    def model_name(self, model, adapter):
        return str(model)


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(module.tempfile, "tempdir", None)
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    yield folder
    module.tempfile.tempdir = None


def use(monkeypatch, **options):
    monkeypatch.setattr(module, "choose_engine", lambda name="auto": StandIn(**options))


def test_it_is_warmed_with_the_temperature_and_ends_with_the_block(model, monkeypatch, tmp_path):
    use(monkeypatch)
    log = tmp_path / "log"
    with local_server(model, temperature=0.7, log=log) as server:
        assert all(map(is_up, server.base_urls))
        assert server.endpoint()["never_send"] == ["n"]
        assert log.read_text() == "asked 0.7\n" * len(server.base_urls)
    assert not any(map(is_up, server.base_urls))
    assert server.ended()


@pytest.mark.parametrize(
    ("cores", "has_gpu", "megabytes", "engine", "processes", "threads"),
    [
        (6, False, 1, "transformers", 2, "3"),
        (1, False, 1, "transformers", 1, None),
        (6, False, 65, "transformers", 1, None),  # a copy of a large model costs more memory than it gains
        (6, True, 1, "transformers", 1, None),
        (6, False, 1, "vllm", 1, None),
    ],
)
def test_processes_divide_the_cores_where_it_pays(
    model, monkeypatch, cores, has_gpu, megabytes, engine, processes, threads
):
    stand_in = StandIn()
    monkeypatch.setattr(module, "choose_engine", lambda name: stand_in)
    monkeypatch.setattr(module, "TRANSFORMERS", stand_in if engine == "transformers" else None)
    monkeypatch.setattr(module.os, "cpu_count", lambda: cores)
    monkeypatch.setattr(module, "has_gpu", lambda: has_gpu)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with (model / "model.safetensors").open("ab") as weights:
        weights.truncate(megabytes * 1024**2)
    with local_server(model) as server:
        assert len(set(server.base_urls)) == processes
        told = []
        for base_url in server.base_urls:
            with urllib.request.urlopen(base_url.removesuffix("/v1")) as answer:
                told.append(json.load(answer))
        assert [each["threads"] for each in told] == [threads] * processes
        os.kill(told[-1]["pid"], signal.SIGKILL)
        until = time.monotonic() + 10
        while not server.ended() and time.monotonic() < until:
            time.sleep(0.01)
        assert server.ended(), "one that is gone is enough"


def test_a_model_whose_size_is_not_known_is_served_once(model, monkeypatch):
    """Weights in the older format (``pytorch_model.bin``) say nothing by their safetensors' size."""
    (model / "model.safetensors").unlink()
    (model / "pytorch_model.bin").write_bytes(b"weights")
    monkeypatch.setattr(module, "has_gpu", lambda: False)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 6)
    assert module._processes_that_pay(module.TRANSFORMERS, model) == 1


def test_one_process_that_does_not_come_up_ends_the_others(model, monkeypatch, tmp_path):
    use(monkeypatch, behaviour="dies")
    running = []
    popen = module.subprocess.Popen
    monkeypatch.setattr(module.subprocess, "Popen", lambda *a, **k: running.append(popen(*a, **k)) or running[-1])
    with (
        pytest.raises(ConfigurationError, match="no such architecture"),
        local_server(model, processes=2, log=tmp_path / "log"),
    ):
        pass
    assert len(running) == 2
    assert all(process.poll() is not None for process in running)


def test_other_weights_have_another_name(model, monkeypatch):
    use(monkeypatch)
    with local_server(model) as first:
        pass
    with local_server(model) as again:
        pass
    (model / "model.safetensors").write_bytes(b"WEIGHTS")
    with local_server(model) as second:
        assert Path(second.model).resolve() == model
    assert first.model == again.model != second.model


@pytest.mark.parametrize(("behaviour", "message"), [("dies", "no such architecture"), ("refuses", "refuses")])
def test_a_server_that_does_not_come_up_says_why(model, monkeypatch, tmp_path, behaviour, message):
    use(monkeypatch, behaviour=behaviour)
    with pytest.raises(ConfigurationError, match=message), local_server(model, log=tmp_path / "log"):
        pass


def test_a_port_in_use_is_not_taken_for_ours(model, monkeypatch):
    use(monkeypatch)
    with (
        local_server(model, processes=1) as other,
        pytest.raises(ConfigurationError, match="cannot be had"),
        local_server(model, port=int(other.base_urls[0].removesuffix("/v1").rpartition(":")[2])),
    ):
        pass


def test_what_speaks_something_else_is_no_server_that_is_up():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet():
            with listener.accept()[0] as connection:
                connection.recv(1000)
                connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        assert not is_up(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        thread.join()


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    with pytest.raises(MissingInputError, match="No model in"), local_server(tmp_path):
        pass
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(module.shutil, "which", lambda *_, **__: None)
    with pytest.raises(ConfigurationError, match=r"Not installed: torch, transformers.*\n.*\[local\]"):
        choose_engine("transformers")
    with pytest.raises(ConfigurationError, match="vLLM is not installed"):
        choose_engine("vllm")


def test_auto_takes_vllm_only_where_it_and_a_gpu_are(monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: object())
    there = {"vllm"}
    monkeypatch.setattr(module.shutil, "which", lambda name, **_: name if name in there else None)
    assert choose_engine().name == "transformers"
    there.add("nvidia-smi")
    assert choose_engine().name == "vllm"


CHILD = """
import sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
from grpo_training.serving import local_server, shared_server
from tests.grpo_training.serving.test_local_server import StandIn
stand_in = lambda name="auto": StandIn()
local_server.choose_engine = shared_server.choose_engine = stand_in
if sys.argv[1] == "keep":
    sys.exit(shared_server.keep(Path(sys.argv[2]), float(sys.argv[3])))
with shared_server.shared_server(Path(sys.argv[2])) as server:
    print(*server.base_urls, flush=True)
    sys.stdin.read()
"""


def test_processes_share_one_server_and_the_last_one_turns_it_off(model, monkeypatch, tmp_path):
    """The keeper is started with the stand-in engine, by a program that stands for ``shared_server``."""
    script = tmp_path / "child.py"
    script.write_text(CHILD.format(root=str(ROOT)))
    popen = subprocess.Popen

    def start(*mode):
        return popen(
            [sys.executable, str(script), *mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    def keeper_instead(command, **options):
        if "grpo_training.serving.shared_server" in command:
            command = [sys.executable, str(script), "keep", *command[3:]]
        return popen(command, **options)

    monkeypatch.setattr(subprocess, "Popen", keeper_instead)
    monkeypatch.setattr("grpo_training.serving.shared_server.choose_engine", lambda name="auto": StandIn())
    with shared_server(model) as mine:
        other = start("use", str(model))
        assert other.stdout.readline().split() == list(mine.base_urls)
    time.sleep(1.0)
    assert any(map(is_up, mine.base_urls))  # the other still uses it
    other.communicate("")
    deadline = time.monotonic() + 30
    while any(map(is_up, mine.base_urls)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(is_up, mine.base_urls))


@pytest.mark.parametrize(("engine", "expected"), [(module.TRANSFORMERS, 0.3), (module.VLLM, 1.0)])
@pytest.mark.parametrize("is_in_the_file", [True, False])
def test_a_run_is_served_at_the_temperature_that_its_records_name(
    model, monkeypatch, tmp_path, engine, expected, is_in_the_file
):
    """Else a record says 0.3, and the server that knows one temperature only drew at another."""
    served_at = []

    def running(place):
        served_at.append((place.model, place.temperature))
        return LocalServer(("http://127.0.0.1:1/v1",), "m", (), lambda: False)

    monkeypatch.setattr(shared_module, "choose_engine", lambda: engine)
    monkeypatch.setattr(shared_module._Place, "running", running)
    entry = {"api_key": "EMPTY", "base_url": "local", "model": str(model)}
    config = tmp_path / "api_config.json"
    config.write_text(json.dumps({"generator_1": entry, "analyst": entry}))
    endpoint = "config" if is_in_the_file else "local"
    settings = GeneratorSettings(temperature=0.3, api_config=config, endpoint=endpoint, model=model)
    with open_endpoints(settings) as manager:
        assert manager.endpoint("generator_1").base_url == "http://127.0.0.1:1/v1"
    assert served_at == [(model, expected)]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_command_ends_with_the_signal_and_leaves_nothing_behind(model, tmp_path, number, code):
    script = tmp_path / "serve.py"
    script.write_text(
        f"import signal, sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # the tests may run under nohup
        "from grpo_training.serving import local_server, serve\nfrom grpo_training.cli.entry import run_command\n"
        "from tests.grpo_training.serving.test_local_server import StandIn\n"
        "local_server.choose_engine = lambda name='auto': StandIn()\n"
        f"run_command(lambda: serve.main(['--model', {str(model)!r}, '--port', '0']))\n"
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    said = ""
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    while " serves " not in said:
        said = process.stdout.readline()
        assert said
    base_url = said.split()[0]
    with urllib.request.urlopen(base_url.removesuffix("/v1") + "/health", timeout=5) as answer:
        assert answer.status == 200
    process.send_signal(number)
    assert process.wait(30) == code
    watchdog.cancel()
    assert not is_up(base_url)


@pytest.mark.parametrize(
    ("temperature", "top_p", "own", "expected"),
    [
        (0.7, 0.9, {"top_k": 20}, {"top_k": 20, "do_sample": True}),
        (0.7, None, None, {"do_sample": True}),  # without a word of its own it would be greedy for ever
        (0.0, None, {"do_sample": True}, {"do_sample": False}),
    ],
)
def test_the_first_request_says_how_all_are_drawn(model, temperature, top_p, own, expected):
    if own is not None:
        (model / "generation_config.json").write_text(json.dumps(own))
    asked = module._as_first_asked(model, temperature, top_p)
    assert json.loads(asked.pop("generation_config")) == expected
    assert asked == {"temperature": temperature, **({} if top_p is None else {"top_p": top_p})}


@pytest.mark.parametrize(("rank", "size"), [(4, "8"), (16, "16"), (20, "32"), (64, "64")])
def test_vllm_is_told_the_rank_of_an_adapter_and_its_name(tmp_path, rank, size):
    adapter = tmp_path / "lora-0123456789"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"r": rank}))
    command = module.VLLM.command(Path("model"), adapter, 8000)
    assert command[command.index("--max-lora-rank") + 1] == size
    assert command[-1] == f"lora-0123456789={adapter}"
    assert module.VLLM.model_name(Path("model"), adapter) == "lora-0123456789"
