"""A model of this machine, served over the OpenAI protocol by vLLM or by transformers; no server of our own."""

from __future__ import annotations

import contextlib
import http.client
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

from engine.errors import ConfigurationError
from grpo_training.serving.model_folder import check_model, content_digest, merged_with

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HOST = "127.0.0.1"
START_S = 600.0
_STOP_S = 10.0
_TRANSFORMERS_NEEDS = ("torch", "transformers", "fastapi", "uvicorn", "accelerate")
_ON_A_PROCESSOR = ["--dtype", "float32", "--cb-num-blocks", "512", "--cb-block-size", "32"]
"""Of transformers serve. In bf16 a processor is slower by a third; the cache takes 40 % of the memory unless bound."""
_AT_ONCE_ON_A_PROCESSOR = 16
"""Its attention reads the cache of all requests for each: more in flight is slower (16: 5.7 requests/s, 64: 2.6)."""
_SMALL_BYTES = 64 * 1024**2
_SERVERS_OF_A_SMALL_MODEL = 2
"""On a processor. A core each, no barriers between threads: 9.6 requests/s against 6.9 of one process on both cores."""
_INSTALL = "pip install -c constraints.txt -e '.[local]'"


@dataclass(frozen=True)
class LocalServer:
    """A model that is served, by one process or by several that share the work.

    Args:
        base_urls: the root of each process, which ends in ``/v1``.
        model: the name to ask for.
        never_send: request parameters that it mistreats without saying so.
        ended: whether a process of it is gone.
        max_concurrency: requests in flight beyond which a process becomes slower; None where none is known.
    """

    base_urls: tuple[str, ...]
    model: str
    never_send: tuple[str, ...]
    ended: Callable[[], bool]
    max_concurrency: int | None = None

    def endpoint(self) -> dict[str, Any]:
        """The entry of an api configuration."""
        limits = {} if self.max_concurrency is None else {"max_concurrency": self.max_concurrency}
        return {
            "api_key": "EMPTY",
            "base_url": list(self.base_urls),
            "model": self.model,
            "never_send": list(self.never_send),
            **limits,
        }


@dataclass(frozen=True)
class Engine:
    """A program that serves models.

    Args:
        name: the program.
        never_send: as in :class:`LocalServer`.
        has_one_sampling: whether all requests are drawn as the server was started, whatever they ask for.
    """

    name: str
    never_send: tuple[str, ...] = ()
    has_one_sampling: bool = False

    def command(self, model: Path, adapter: Path | None, port: int) -> list[str]:
        """The command line that serves ``model`` on ``port``."""
        if self.name == "vllm":
            lora = _vllm_lora(adapter) if adapter else []
            return ["vllm", "serve", str(model), "--host", HOST, "--port", str(port), *lora]
        program = shutil.which("transformers", path=str(Path(sys.executable).parent)) or "transformers"
        batching = ["--continuous-batching", "--log-level", "error"]
        if not has_gpu():
            batching += _ON_A_PROCESSOR
        return [program, "serve", *batching, "--host", HOST, "--port", str(port), str(model)]

    def model_name(self, model: Path, adapter: Path | None) -> str:
        """The name that requests ask for."""
        return adapter.name if adapter and self.name == "vllm" else str(model)


VLLM = Engine("vllm")
# transformers 5.23: ignores n, schemas and log-probs silently; a seed reseeds every request in flight.
TRANSFORMERS = Engine(
    "transformers", ("n", "seed", "response_format", "logprobs", "return_token_ids"), has_one_sampling=True
)


def has_gpu() -> bool:
    """Whether this machine shows a CUDA GPU."""
    return shutil.which("nvidia-smi") is not None


def choose_engine(name: str = "auto") -> Engine:
    """The engine of that name, or for ``auto`` vLLM where it and a CUDA GPU are, else transformers.

    Raises:
        ConfigurationError: what it needs is not installed; says what and how to get it.
    """
    if name == "vllm" or (name == "auto" and shutil.which("vllm") and has_gpu()):
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
    top_p: float | None = None,
    port: int = 0,
    processes: int | None = None,
    log: Path | None = None,
) -> Iterator[LocalServer]:
    """Serve a model for the length of the block.

    Args:
        model: a folder in the Hugging Face format.
        engine: ``auto``, ``transformers`` or ``vllm``.
        adapter: a PEFT LoRA folder on top of it.
        temperature: transformers' continuous batching samples every request as the first one asks for, so the
            server is warmed with this one; 0 is greedy.
        top_p: nucleus sampling, in the same way; None: as the model's own generation_config.json says.
        port: where a single process shall listen; 0 takes free ports.
        processes: how many share the work; None: as many as pay here.
        log: where their output goes; by default nowhere.

    Raises:
        MissingInputError: no model there.
        ConfigurationError: the engine is missing, the adapter belongs to another model, the port is in use, or
            the server did not come up; with the end of its output.
    """
    check_model(model, adapter)
    chosen = choose_engine(engine)
    model = model.resolve()
    with contextlib.ExitStack() as stack:
        if adapter is None:
            model = _link_named_by_content(model, model.name, [model])
        elif chosen is TRANSFORMERS:
            merged = stack.enter_context(merged_with(model, adapter))
            model = _link_named_by_content(merged, f"{model.name}+{adapter.resolve().name}", [model, adapter])
            stack.callback(_unlink_if_it_leads_to, model, merged)
            adapter = None
        else:
            name = adapter.resolve().name
            adapter = _link_named_by_content(adapter.resolve(), name, [model, adapter])
            model = _link_named_by_content(model, model.name, [model])
        output = stack.enter_context(log.open("ab")) if log else subprocess.DEVNULL
        ports = _free_ports([port] if port else [0] * (processes or _processes_that_pay(chosen, model)))
        running = []
        for own_port in ports:
            process = subprocess.Popen(
                chosen.command(model, adapter, own_port),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | _threads(len(ports)) | {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"},
            )
            stack.callback(_stop, process)
            running.append(process)
        server = LocalServer(
            tuple(f"http://{HOST}:{own_port}/v1" for own_port in ports),
            chosen.model_name(model, adapter),
            chosen.never_send,
            lambda: any(process.poll() is not None for process in running),
            _AT_ONCE_ON_A_PROCESSOR if chosen is TRANSFORMERS and not has_gpu() else None,
        )
        for process, base_url in zip(running, server.base_urls, strict=True):
            _wait_until_up(process, base_url, log)
            _warm(base_url, server.model, _as_first_asked(model, temperature, top_p))
        yield server


def _processes_that_pay(engine: Engine, model: Path) -> int:
    """vLLM uses a GPU, or all cores, by itself; what a small model gains by a copy, a large one loses in memory."""
    if engine is not TRANSFORMERS or has_gpu():
        return 1
    is_small = 0 < sum(part.stat().st_size for part in model.glob("*.safetensors")) <= _SMALL_BYTES
    return min(_SERVERS_OF_A_SMALL_MODEL, os.cpu_count() or 1) if is_small else 1


def _threads(processes: int) -> dict[str, str]:
    """The variables by which processes divide the cores."""
    return {} if processes == 1 else {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // processes))}


def _vllm_lora(adapter: Path) -> list[str]:
    """vLLM's flags for an adapter; it takes rank 16 at most where nothing is said, and only these sizes."""
    rank = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8")).get("r") or 8
    size = next((size for size in (8, 16, 32, 64, 128, 256, 320, 512) if rank <= size), 512)
    return ["--enable-lora", "--max-lora-rank", str(size), "--lora-modules", f"{adapter.name}={adapter}"]


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


def _link_named_by_content(folder: Path, name: str, made_of: Sequence[Path]) -> Path:
    """A link to a folder whose name changes with the weights that it is made of.

    The name is what requests ask for and what journals know replies by: other weights, other replies.
    """
    link = user_folder() / f"{name}-{content_digest(made_of)}"
    fresh = link.with_name(f"{link.name}.{os.getpid()}")
    fresh.symlink_to(folder)
    fresh.replace(link)
    return link


def _unlink_if_it_leads_to(link: Path, folder: Path) -> None:
    """Remove a link to a folder that goes away; another process may have pointed it elsewhere meanwhile."""
    with contextlib.suppress(OSError):
        if link.readlink() == folder:
            link.unlink()


def _wait_until_up(process: subprocess.Popen[bytes], base_url: str, log: Path | None) -> None:
    deadline = time.monotonic() + START_S
    while not is_up(base_url):
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
    except (OSError, http.client.HTTPException):  # the latter: what listens there now speaks something else
        return False


def _as_first_asked(model: Path, temperature: float, top_p: float | None) -> dict[str, Any]:
    """The sampling fields of the first request.

    transformers draws greedily for ever where the model's own configuration does not say ``do_sample``, so the
    first request brings a whole one; vLLM takes no notice of it.
    """
    own = model / "generation_config.json"
    config = json.loads(own.read_text(encoding="utf-8")) if own.is_file() else {}
    config["do_sample"] = temperature > 0
    asked: dict[str, Any] = {"temperature": temperature, "generation_config": json.dumps(config)}
    return asked if top_p is None else {**asked, "top_p": top_p}


def _warm(base_url: str, model: str, sampling: dict[str, Any]) -> None:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "."}],
        "max_tokens": 1,
        **sampling,
    }
    request = urllib.request.Request(  # noqa: S310 - a loopback address
        f"{base_url}/chat/completions",
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


def _free_ports(wanted: Sequence[int]) -> list[int]:
    """The ports that are wanted, where 0 takes a free one. One in use would answer, and be taken for ours.

    Raises:
        ConfigurationError: a port cannot be had.
    """
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in wanted]
        for probe, port in zip(probes, wanted, strict=True):
            if port:  # one that was just given up is free
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError as error:
                raise ConfigurationError(
                    f"Port {port} of {HOST} cannot be had",
                    why=str(error),
                    fix="End what listens there, or name another --port (0 takes a free one).",
                ) from None
        return [probe.getsockname()[1] for probe in probes]
