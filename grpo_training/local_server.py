"""A model of this machine, served over the OpenAI protocol by vLLM or by transformers; no server of our own."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import ConfigurationError, MissingInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOST = "127.0.0.1"
START_S = 600.0
_STOP_S = 10.0
_SAMPLE_BYTES = 1 << 20
_TRANSFORMERS_NEEDS = ("torch", "transformers", "fastapi", "uvicorn", "accelerate")
_INSTALL = "pip install -c constraints.txt -e '.[local]'"


@dataclass(frozen=True)
class LocalServer:
    """A server that runs.

    Args:
        base_url: its root, which ends in ``/v1``.
        model: the name to ask for.
        never_send: request parameters that it mistreats without saying so.
        ended: whether its process is gone.
    """

    base_url: str
    model: str
    never_send: tuple[str, ...]
    ended: Callable[[], bool]

    def endpoint(self) -> dict[str, Any]:
        """The entry of an api configuration."""
        return {
            "api_key": "EMPTY",
            "base_url": self.base_url,
            "model": self.model,
            "never_send": list(self.never_send),
        }


@dataclass(frozen=True)
class Engine:
    """A program that serves models. ``never_send`` as in :class:`LocalServer`."""

    name: str
    never_send: tuple[str, ...] = ()

    def command(self, model: Path, adapter: Path | None, port: int) -> list[str]:
        """The command line that serves ``model`` on ``port``."""
        if self.name == "vllm":
            lora = ["--enable-lora", "--lora-modules", f"adapter={adapter}"] if adapter else []
            return ["vllm", "serve", str(model), "--host", HOST, "--port", str(port), *lora]
        program = shutil.which("transformers", path=str(Path(sys.executable).parent)) or "transformers"
        batching = ["--continuous-batching", "--log-level", "error"]
        return [program, "serve", *batching, "--host", HOST, "--port", str(port), str(model)]

    def model_name(self, model: Path, adapter: Path | None) -> str:
        """The name that requests ask for."""
        return "adapter" if adapter and self.name == "vllm" else str(model)


VLLM = Engine("vllm")
# transformers 5.23: ignores n, schemas and log-probs silently; a seed reseeds every request in flight.
TRANSFORMERS = Engine("transformers", ("n", "seed", "response_format", "logprobs", "return_token_ids"))


def choose_engine(name: str = "auto") -> Engine:
    """The engine of that name, or for ``auto`` vLLM where it and a CUDA GPU are, else transformers.

    Raises:
        ConfigurationError: what it needs is not installed; says what and how to get it.
    """
    if name == "vllm" or (name == "auto" and shutil.which("vllm") and shutil.which("nvidia-smi")):
        if shutil.which("vllm") is None:
            raise ConfigurationError(
                "vLLM is not installed",
                why="It pins other versions of torch and transformers, so it lives in an environment of its own.",
                fix="Activate that environment for this command, or use --engine transformers.",
            )
        return VLLM
    missing = [package for package in _TRANSFORMERS_NEEDS if importlib.util.find_spec(package) is None]
    if missing:
        raise ConfigurationError(
            "A local model cannot be served here",
            why=f"Not installed: {', '.join(missing)}.",
            fix=f"{_INSTALL}   (or: make local)",
        )
    return TRANSFORMERS


@contextlib.contextmanager
def local_server(
    model: Path,
    *,
    engine: str = "auto",
    adapter: Path | None = None,
    temperature: float = 1.0,
    port: int = 0,
    log: Path | None = None,
) -> Iterator[LocalServer]:
    """Serve a model for the length of the block.

    Args:
        model: a folder in the Hugging Face format.
        engine: ``auto``, ``transformers`` or ``vllm``.
        adapter: a PEFT LoRA folder on top of it.
        temperature: transformers' continuous batching samples every request at the temperature of the first
            one, so the server is warmed with this one.
        port: 0 takes a free one.
        log: where the server's output goes; by default nowhere.

    Raises:
        MissingInputError: no model there.
        ConfigurationError: the engine is missing, or the server did not come up; with the end of its output.
    """
    if not (model / "config.json").is_file():
        raise MissingInputError(
            f"No model in {model}", fix="Give the folder of a model in the Hugging Face format (config.json ...)."
        )
    chosen = choose_engine(engine)
    model = model.resolve()
    with contextlib.ExitStack() as stack:
        if adapter is not None and chosen is TRANSFORMERS:
            model = stack.enter_context(_merged(model, adapter))
            adapter = None
        model = _link_named_by_content(model)
        port = port or _free_port()
        output = stack.enter_context(log.open("ab")) if log else subprocess.DEVNULL
        process = subprocess.Popen(
            chosen.command(model, adapter, port),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"},
        )
        stack.callback(_stop, process)
        server = LocalServer(
            f"http://{HOST}:{port}/v1",
            chosen.model_name(model, adapter),
            chosen.never_send,
            lambda: process.poll() is not None,
        )
        _wait_until_up(process, server, log)
        _warm(server, temperature)
        yield server


@contextlib.contextmanager
def _merged(model: Path, adapter: Path) -> Iterator[Path]:
    """The model with a LoRA adapter merged into its weights, in a temporary folder."""
    if importlib.util.find_spec("peft") is None:
        raise ConfigurationError("An adapter needs the package peft", fix="pip install -c constraints.txt peft")
    if not (adapter / "adapter_config.json").is_file():
        raise MissingInputError(f"No adapter in {adapter}", fix="Give a folder with adapter_config.json.")
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with tempfile.TemporaryDirectory(prefix="merged-") as folder:
        try:
            merged = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model), adapter)
        except (RuntimeError, ValueError) as error:
            raise ConfigurationError(f"{adapter} is no adapter of {model}", why=str(error)[:500]) from None
        merged.merge_and_unload().save_pretrained(folder)
        AutoTokenizer.from_pretrained(model).save_pretrained(folder)
        yield Path(folder)


def user_folder() -> Path:
    """A folder of this user's for files that processes share until the machine restarts.

    Raises:
        ConfigurationError: somebody else has made it.
    """
    folder = Path(tempfile.gettempdir()) / f"scaffold-grpo-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise ConfigurationError(f"{folder} belongs to somebody else", fix="Set TMPDIR to a folder of yours.")
    return folder


def _link_named_by_content(model: Path) -> Path:
    """A link to the model whose name changes with its weights.

    The name is what requests ask for and what journals know replies by: other weights, other replies.
    """
    digest = hashlib.sha256((model / "config.json").read_bytes())
    for weights in sorted(model.glob("*.safetensors")):
        size = weights.stat().st_size
        digest.update(f"{weights.name}:{size}:".encode())
        with weights.open("rb") as file:
            digest.update(file.read(_SAMPLE_BYTES))
            file.seek(max(0, size - _SAMPLE_BYTES))
            digest.update(file.read(_SAMPLE_BYTES))
    link = user_folder() / f"{model.name}-{digest.hexdigest()[:10]}"
    fresh = link.with_name(f"{link.name}.{os.getpid()}")
    fresh.symlink_to(model)
    fresh.replace(link)
    return link


def _wait_until_up(process: subprocess.Popen[bytes], server: LocalServer, log: Path | None) -> None:
    deadline = time.monotonic() + START_S
    while not is_up(server.base_url):
        if process.poll() is not None or time.monotonic() > deadline:
            why = f"it ended with status {process.returncode}" if process.returncode is not None else "it is silent"
            tail = log.read_bytes()[-2000:].decode(errors="replace").strip() if log else ""
            raise ConfigurationError(
                "The local server did not come up", why="\n".join(part for part in (why, tail) if part)
            )
        time.sleep(0.1)


def is_up(base_url: str) -> bool:
    """Whether a server answers its health check."""
    try:
        with urllib.request.urlopen(base_url.removesuffix("/v1") + "/health", timeout=2) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except OSError:
        return False


def _warm(server: LocalServer, temperature: float) -> None:
    body = {
        "model": server.model,
        "messages": [{"role": "user", "content": "."}],
        "max_tokens": 1,
        "temperature": temperature,
    }
    request = urllib.request.Request(  # noqa: S310 - a loopback address
        f"{server.base_url}/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer EMPTY"},
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
            answer.read()
    except urllib.error.HTTPError as error:
        raise ConfigurationError(
            "The local server refuses a first request", why=error.read()[:500].decode(errors="replace")
        ) from None
    except OSError as error:
        raise ConfigurationError("The local server does not answer", why=str(error)) from None


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server's whole group: first politely."""
    for number, patience_s in ((signal.SIGTERM, _STOP_S), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            continue
        return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
