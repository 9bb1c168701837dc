"""The programs that serve models: vLLM and transformers."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ConfigurationError
from engine.storage.installation import install_command
from grpo_training.serve.vllm_program import ENVIRONMENT, VllmProgram, find_vllm

HOST = "127.0.0.1"
"""Address that local servers listen on."""

_TRANSFORMERS_PACKAGES = ("torch", "transformers", "fastapi", "openai", "uvicorn", "accelerate")
_CPU_FLAGS = ["--dtype", "float32", "--cb-num-blocks", "512", "--cb-block-size", "32"]
"""For transformers serve. bf16 is a third slower on a CPU without instructions for it; with them it was not measured.
The cache takes 40 % of the memory unless limited.
"""
_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The values that vLLM accepts for --max-lora-rank; its default is 16."""


@dataclass(frozen=True)
class Engine:
    """A program that serves models.

    Args:
        name: name of the program.
        never_send: request parameters that it ignores or handles wrongly without an error.
        otherwise: how to serve a model if this engine fails; empty if there is no other one.
    """

    name: str
    never_send: tuple[str, ...] = ()
    otherwise: str = ""

    def command(self, model: Path, adapter: Path | None, port: int, names: Sequence[str]) -> list[str]:
        """The command line that serves ``model`` with an adapter on ``port``, under each of the names."""
        if self.name == "vllm":
            vllm = find_vllm() or VllmProgram("vllm", "")
            named = _vllm_lora_flags(adapter, names) if adapter else ["--served-model-name", *names]
            return [vllm.path, "serve", str(model), "--host", HOST, "--port", str(port), *vllm.flags, *named]
        program = [sys.executable, "-m", "grpo_training.serve.transformers_program", json.dumps(list(names))]
        flags = ["--continuous-batching", "--log-level", "error", *([] if has_gpu() else _CPU_FLAGS)]
        return [*program, "serve", *flags, "--host", HOST, "--port", str(port), str(model)]


VLLM = Engine(
    "vllm",
    otherwise="Use --engine transformers. In place of --endpoint local, which has no such flag: python -m "
    "grpo_training.serve --model FOLDER --engine transformers, and --base-url with the address that it prints.",
)
# transformers 5.23 ignores n, JSON schemas and log-probs without an error; a seed reseeds every request in flight.
TRANSFORMERS = Engine("transformers", ("n", "seed", "response_format", "logprobs", "return_token_ids"))


def has_gpu() -> bool:
    """Whether this machine has a CUDA GPU."""
    return shutil.which("nvidia-smi") is not None


def choose_engine(name: str = "auto") -> Engine:
    """The engine of that name; ``auto`` is vLLM where its build fits this machine, else transformers.

    Raises:
        ConfigurationError: the engine is not installed.
    """
    engine, _ = (VLLM, "") if name == "vllm" else (TRANSFORMERS, "") if name == "transformers" else automatic_engine()
    if engine is VLLM and find_vllm() is None:
        raise ConfigurationError(
            "vLLM is not installed",
            why=f"There is no program vllm in this environment, in {ENVIRONMENT} or on the path.",
            fix=f"`make vllm` in a checkout makes {ENVIRONMENT}; or use --engine transformers.",
        )
    missing = [package for package in _TRANSFORMERS_PACKAGES if importlib.util.find_spec(package) is None]
    if engine is TRANSFORMERS and missing:
        raise ConfigurationError(
            "Packages that are needed to serve a local model are missing",
            why=f"Not installed: {', '.join(missing)}.",
            fix=install_command("local"),
        )
    return engine


def automatic_engine() -> tuple[Engine, str]:
    """The engine of ``--engine auto`` and ``--endpoint local``, and why it is that one."""
    vllm = find_vllm()
    if vllm is None:
        return TRANSFORMERS, "vLLM is not installed"
    machine = "a CUDA GPU" if has_gpu() else "no CUDA GPU"
    build = f"{vllm} is a build for {'CPUs' if vllm.is_for_cpu else 'GPUs'}, and there is {machine}"
    return (VLLM if vllm.is_for_cpu != has_gpu() else TRANSFORMERS), build


def _vllm_lora_flags(adapter: Path, names: Sequence[str]) -> list[str]:
    """vLLM's flags for an adapter. The names are those of the adapted model, not of its base."""
    rank = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8")).get("r") or 8
    max_rank = next((size for size in _LORA_RANKS if rank <= size), _LORA_RANKS[-1])
    modules = [f"{name}={adapter}" for name in names if "=" not in name]
    return ["--enable-lora", "--max-lora-rank", str(max_rank), "--lora-modules", *modules]
