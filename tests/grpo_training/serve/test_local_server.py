"""The life of a local server, with a small stand-in for the engine's program."""

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from engine.errors import ConfigurationError, MissingInputError
from grpo_training.cli.settings import POCKET_MODEL
from grpo_training.serve import engines
from grpo_training.serve import local_server as module
from grpo_training.serve.local_server import is_up, is_up_in_time, local_server
from tests.support.stand_in_engine import StandInEngine


def test_a_server_gets_the_temperature_and_stops_with_the_block(model, tmp_path):
    log = tmp_path / "log"
    with local_server(model, engine=StandInEngine(), temperature=0.7, log=log) as server:
        assert is_up(server.base_url)
        assert server.endpoint()["never_send"] == ["n"]
        assert log.read_text() == "asked 0.7\n"
    assert not is_up(server.base_url)
    assert server.ended()


def test_a_killed_server_has_ended(model):
    with local_server(model, engine=StandInEngine()) as server:
        with urllib.request.urlopen(server.base_url.removesuffix("/v1")) as answer:
            os.kill(json.load(answer)["pid"], signal.SIGKILL)
        until = time.monotonic() + 60
        while not server.ended() and time.monotonic() < until:
            time.sleep(0.01)
        with pytest.raises(ConfigurationError, match="has exited"):
            server.check()


def test_other_weights_have_another_name(model):
    engine = StandInEngine()
    with local_server(model, engine=engine) as first:
        pass
    with local_server(model, engine=engine) as again:
        pass
    (model / "model.safetensors").write_bytes(b"WEIGHTS")
    with local_server(model, engine=engine) as second:
        assert second.model.startswith("tiny-")
    assert first.model == again.model != second.model


@pytest.mark.parametrize(
    ("behaviour", "message", "in_log"),
    [
        ("dies", "did not start", "ValueError: no such architecture"),
        ("refuses", "rejects the warm-up request", "asked 1.0"),
        ("crashes", "does not answer the warm-up request", "Fatal Python error: Illegal instruction"),
    ],
)
@pytest.mark.parametrize("offers_another", [True, False])
def test_the_error_of_a_server_that_does_not_start_has_its_output_and_another_engine(
    model, tmp_path, behaviour, message, in_log, offers_another
):
    otherwise = engines.VLLM.otherwise if offers_another else ""
    engine = StandInEngine(behaviour=behaviour, otherwise=otherwise)
    with pytest.raises(ConfigurationError, match=message) as caught, local_server(model, engine=engine):
        pass
    log = re.search(r"its log (\S+):", caught.value.why)[1]
    assert in_log in Path(log).read_text()
    assert in_log in caught.value.why
    assert ("python -m grpo_training.serve --model FOLDER --engine transformers" in caught.value.fix) is offers_another


def test_an_engine_that_fails_at_a_first_step_of_few_tokens_is_warmed_up_with_more(model):
    with local_server(model, engine=StandInEngine(behaviour="crashes_if_short")) as server:
        assert is_up(server.base_url)


def test_the_warm_up_has_more_tokens_than_vllm_multiplies_without_amx():
    tokenizer = pytest.importorskip("tokenizers").Tokenizer.from_file(str(POCKET_MODEL / "tokenizer.json"))
    assert len(tokenizer.encode(module._WARM_UP).ids) > 4


def test_a_port_in_use_is_refused(model):
    engine = StandInEngine()
    with (
        local_server(model, engine=engine) as other,
        pytest.raises(ConfigurationError, match="is already in use or not permitted"),
        local_server(model, engine=engine, port=int(other.base_url.removesuffix("/v1").rpartition(":")[2])),
    ):
        pass


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(MissingInputError, match="No model in"), local_server(tmp_path):
        pass


def test_another_protocol_on_the_port_is_not_a_running_server():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet():
            with listener.accept()[0] as connection:
                connection.recv(1000)
                connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        assert not is_up(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        thread.join()


@pytest.mark.parametrize(
    ("temperature", "top_p", "own", "expected"),
    [
        (0.7, 0.9, {"top_k": 20}, {"top_k": 20, "do_sample": True}),
        (0.7, None, None, {"do_sample": True}),  # without do_sample all requests would be greedy
        (0.0, None, {"do_sample": True}, {"do_sample": False}),
    ],
)
def test_the_first_request_sets_the_sampling_of_all(model, temperature, top_p, own, expected):
    if own is not None:
        (model / "generation_config.json").write_text(json.dumps(own))
    fields = module.first_sampling(model, temperature, top_p)
    assert json.loads(fields.pop("generation_config")) == expected
    assert fields == {"temperature": temperature, **({} if top_p is None else {"top_p": top_p})}


class _Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "is_shown"), [(_Terminal, True), (io.StringIO, False)])
def test_a_long_start_shows_how_long_it_takes(monkeypatch, stream, is_shown):
    monkeypatch.setattr(module, "_SHOWN_AFTER_S", 0.1)
    monkeypatch.setattr(module, "_START_POLL_S", 0.2)
    monkeypatch.setattr(sys, "stderr", stream())
    answers = iter([False, False, False, False, True])
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert is_up_in_time(lambda: next(answers), process)
        shown = sys.stderr.getvalue()
        process.kill()
    assert ("the server starts: 00:00" in shown) is is_shown
    assert bool(shown) is is_shown


def test_a_server_that_exits_is_not_waited_for():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        assert not is_up_in_time(lambda: False, process)
