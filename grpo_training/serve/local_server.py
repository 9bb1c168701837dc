"""Serves a model on this machine over the OpenAI protocol, with vLLM or transformers in a child process."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ConfigurationError
from engine.reading.model_text import without_control_characters
from engine.storage.user_folder import user_folder
from grpo_training.cli.bar import progress_bar
from grpo_training.runs.guarded_process import start_guarded
from grpo_training.serve.engines import HOST, TRANSFORMERS, VLLM, Engine, choose_engine, has_gpu
from grpo_training.serve.model_folder import content_digest, find_model, merged_with, model_name
from grpo_training.serve.vllm_program import find_vllm

_START_TIMEOUT_S = 600.0
_START_POLL_S = 0.1
_SHOWN_AFTER_S = 2.0
_FIRST_REQUEST_S = 120.0
_TERMINATE_TIMEOUT_S = 10.0
_SILENT_S = 3600.0
"""A server of our own is not slow by fault. If it hangs, its requests are given up after this time without a reply."""
_CPU_CONCURRENCY = 16
"""transformers' attention reads the cache of all requests for each one (16 in flight: 5.7 requests/s, 64: 2.6)."""
_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "VLLM_NO_USAGE_STATS": "1"}
_LOG_TAIL_BYTES = 64 * 1024
_LINE_CHARACTERS = 600
_ERROR_LINE = re.compile(r"(?:^|\s)((?:[\w.]*(?:Error|Exception)|Fatal Python error): .+)$")
_NOT_THE_CAUSE = "root cause"
"""In the last errors of a vLLM server whose engine, another process, has failed: they point to it."""
_WARM_UP = "What is the sum of 2 and 2? Answer with a number."
"""More than 4 tokens. With vLLM 0.32 on a CPU with AMX, an engine whose first step has 4 ends with "Illegal
instruction": it multiplies up to 4 tokens by small weights without AMX, and its attention uses AMX without asking Linux
for the permission, as its products with AMX do. A process keeps the permission, so later steps may be short.
"""


@dataclass(frozen=True)
class LocalServer:
    """A served model.

    Args:
        base_url: root of the API, ending in ``/v1``.
        model: the model name of requests.
        never_send: request parameters that the server handles wrongly without an error.
        ended: whether the process has exited.
        max_concurrency: requests in flight above which it becomes slower; None if unknown.
        log: its output.
        otherwise: how to serve the model with another engine; empty if there is none.
    """

    base_url: str
    model: str
    never_send: tuple[str, ...]
    ended: Callable[[], bool]
    max_concurrency: int | None = None
    log: Path | None = None
    otherwise: str = ""

    def check(self) -> None:
        """Check that the process runs.

        Raises:
            ConfigurationError: it has exited; with the line of its log that says why.
        """
        if self.ended():
            again = "Run the same command again: it starts the server, and stored replies are used again."
            raise ConfigurationError(
                f"The local server of {self.model} at {self.base_url} has exited",
                why=why_ended(self.log),
                fix=f"{again} If it exits again: {self.otherwise}" if self.otherwise else again,
            )

    def endpoint(self) -> dict[str, Any]:
        """The entry of an api config."""
        limits = {} if self.max_concurrency is None else {"max_concurrency": self.max_concurrency}
        return {
            "api_key": "EMPTY",
            "base_url": self.base_url,
            "model": self.model,
            "never_send": list(self.never_send),
            "timeout_s": _SILENT_S,
            **limits,
        }


@contextlib.contextmanager
def local_server(
    model: Path,
    *,
    engine: Engine | None = None,
    adapter: Path | None = None,
    temperature: float = 1.0,
    top_p: float | None = None,
    port: int = 0,
    log: Path | None = None,
) -> Iterator[LocalServer]:
    """Serve a model for the length of the block.

    Args:
        model: a folder in the Hugging Face format, or a name of the hub.
        engine: None chooses one (:func:`choose_engine`).
        adapter: folder of a PEFT LoRA adapter.
        temperature: sampling temperature of the warm-up request. transformers' continuous batching samples all
            requests with the parameters of the first one. 0 is greedy.
        top_p: nucleus sampling, in the same way; None uses the model's generation_config.json.
        port: port; 0 takes a free one.
        log: file for the output of the process, which is appended; None: one in a temporary folder of the user.

    Raises:
        MissingInputError: there is no model in the folder.
        ConfigurationError: the engine is not installed, the adapter belongs to another model, the port is not
            available, or the server did not start.
    """
    folder, name = find_model(model, adapter).resolve(), served_name(model, adapter)
    engine = engine or choose_engine()
    names = [name, *_names_of(model if adapter is None else adapter)]
    with contextlib.ExitStack() as stack:
        adapter = adapter and adapter.resolve()
        served = folder
        if adapter is not None and engine is TRANSFORMERS:
            served = stack.enter_context(merged_with(folder, adapter))
        loaded = None if engine is TRANSFORMERS else adapter
        port = _free_port(port)
        log = log or user_folder() / f"{name}.log"
        output = stack.enter_context(log.open("ab"))
        vllm = find_vllm() if engine is VLLM else None
        environment = (vllm.variables if vllm else {}) | os.environ | _OFFLINE
        process = start_guarded(engine.command(served, loaded, port, names), output=output, environment=environment)
        stack.callback(_stop, process)
        server = LocalServer(
            f"http://{HOST}:{port}/v1",
            name,
            engine.never_send,
            lambda: process.poll() is not None,
            _CPU_CONCURRENCY if engine is TRANSFORMERS and not has_gpu() else None,
            log,
            engine.otherwise,
        )
        try:
            if not is_up_in_time(lambda: is_up(server.base_url), process):
                status = process.returncode
                why = f"no answer after {_START_TIMEOUT_S:g} s" if status is None else f"it exited with status {status}"
                raise ConfigurationError("The local server did not start", why=why)
            _send_first_request(server.base_url, server.model, first_sampling(served, temperature, top_p))
        except ConfigurationError as error:
            why = "\n".join(filter(None, (error.why, why_ended(log))))
            raise ConfigurationError(error.what, why=why, fix=server.otherwise) from None
        yield server


def served_name(model: Path, adapter: Path | None = None) -> str:
    """The name of the model in requests to its server, which ends with a digest of its weights.

    The journal stores completions under this name. Changed weights therefore never get completions of the earlier ones.

    Args:
        model, adapter: as :func:`local_server`.

    Raises:
        MissingInputError, ConfigurationError: as :func:`local_server`.
    """
    folder = find_model(model, adapter).resolve()
    if adapter is None:
        return f"{model_name(folder)}-{content_digest([folder])}"
    return f"{model_name(folder)}+{adapter.resolve().name}-{content_digest([folder, adapter])}"


def is_up(base_url: str) -> bool:
    """Whether the server passes its health check."""
    import ssl

    import httpx  # takes as long to import as a command that starts no server takes to check its input

    health = f"{base_url.removesuffix('/v1')}/health"
    without_certificates = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading them takes longer than the answer
    try:
        return httpx.get(health, timeout=2, trust_env=False, verify=without_certificates).status_code == 200
    except httpx.HTTPError:
        return False


def first_sampling(model: Path, temperature: float, top_p: float | None) -> dict[str, Any]:
    """The sampling fields of the warm-up request.

    transformers samples greedily unless the model's generation_config.json sets ``do_sample``, so the request
    carries a complete generation config. vLLM ignores it.
    """
    path = model / "generation_config.json"
    config = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    config["do_sample"] = temperature > 0
    fields: dict[str, Any] = {"temperature": temperature, "generation_config": json.dumps(config)}
    return fields if top_p is None else {**fields, "top_p": top_p}


def _names_of(folder: Path) -> list[str]:
    """How a client may name a model that is served from a folder: the folder as it was given, its path, its name."""
    return list(dict.fromkeys((str(folder), str(folder.resolve()), folder.resolve().name)))


def why_ended(log: Path | None) -> str:
    """The last line of the log of a server that has exited, and its last error; empty without a log."""
    if log is None or not log.is_file():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
        text = file.read().decode(errors="replace")
    lines = [line for line in map(str.strip, without_control_characters(text).splitlines()) if line]
    if not lines:
        return f"Its log {log} is empty."
    errors = [match[1] for line in lines if (match := _ERROR_LINE.search(line)) and _NOT_THE_CAUSE not in line]
    named = [f"The last line of its log {log}: {lines[-1]}"]
    if errors and errors[-1] not in lines[-1]:
        named.append(f"The last error in it: {errors[-1]}")
    return "\n".join(line[:_LINE_CHARACTERS] for line in named)


def is_up_in_time(check: Callable[[], bool], process: subprocess.Popen[bytes]) -> bool:
    """Whether a server answers before its process exits and before ten minutes have passed.

    How long it takes is shown on stderr: after two seconds on a terminal, else in a line every 30 seconds.

    Args:
        check: whether it answers now.
        process: the server.
    """
    form = "the server starts: {elapsed}"
    leave, deadline = not sys.stderr.isatty(), time.monotonic() + _START_TIMEOUT_S
    with progress_bar(bar_format=form, delay=_SHOWN_AFTER_S, miniters=1, leave=leave) as bar:
        while not check():
            if process.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(_START_POLL_S)
            bar.update()
    return True


def _send_first_request(base_url: str, model: str, sampling: dict[str, Any]) -> None:
    import httpx

    body = {"model": model, "messages": [{"role": "user", "content": _WARM_UP}], "max_tokens": 1, **sampling}
    try:
        reply = httpx.post(
            f"{base_url}/chat/completions",
            json=body,
            headers={"Authorization": "Bearer EMPTY"},
            timeout=_FIRST_REQUEST_S,
            trust_env=False,
        )
    except httpx.HTTPError as error:
        raise ConfigurationError("The local server does not answer the warm-up request", why=str(error)) from None
    if reply.is_error:
        raise ConfigurationError("The local server rejects the warm-up request", why=reply.text[:500])


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Terminate the server's process group; kill it if that takes too long."""
    for number, timeout_s in ((signal.SIGTERM, _TERMINATE_TIMEOUT_S), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            continue
        return


def _free_port(port: int) -> int:
    """Check that a port is free, or find a free one for 0. Another server on the port would answer instead.

    Raises:
        ConfigurationError: the port is not available.
    """
    with socket.socket() as probe:
        if port:  # allow a port that was closed a moment ago
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ConfigurationError(
                f"Port {port} is already in use or not permitted",
                why=str(error),
                fix="Stop the program that listens there, or choose another --port (0 takes a free one).",
            ) from None
        return int(probe.getsockname()[1])
