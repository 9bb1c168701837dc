"""The program ``vllm``: where it is, whether its build fits this machine, and the flags that the build needs."""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from engine.cores import usable_cores

ENVIRONMENT = ".venv-vllm"
"""The environment that ``make vllm`` makes."""

_CPU_INFO = Path("/proc/cpuinfo")
_CPU_FLAGS = (
    "--enforce-eager",
    # Without it vLLM reserves nearly the whole memory of the machine. 2 GiB hold 350,000 tokens of the pocket model.
    *("--kv-cache-memory-bytes", str(2 << 30), "--max-model-len", "auto"),
    # vLLM 0.32 ends with "CPU Generator does not use offset" when it samples a part of the seeds of a batch, which
    # happens if a step holds fewer tokens than the requests in flight have.
    *("--max-num-batched-tokens", "65536"),
)
_CPU_VARIABLES = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # bound to cores, two servers on a machine take the same ones
    # --enforce-eager leaves the code of log-probs to be compiled at their first request, with g++ and for minutes.
    "TORCH_COMPILE_DISABLE": "1",
    "PYTHONFAULTHANDLER": "1",  # a process that an instruction ends says so in the log
}


class VllmProgram(NamedTuple):
    """A program ``vllm``.

    Args:
        path: its path.
        version: the version of the package, such as ``0.32.0`` or ``0.32.0+cpu``; empty if it is not known.
    """

    path: str
    version: str

    @property
    def is_for_cpu(self) -> bool:
        """Whether it is a build for CPUs."""
        return self.version.endswith("+cpu")

    @property
    def flags(self) -> list[str]:
        """Flags of ``vllm serve`` that the build needs."""
        return ["--dtype", cpu_dtype(), *_CPU_FLAGS] if self.is_for_cpu else []

    @property
    def variables(self) -> dict[str, str]:
        """Defaults of environment variables that the build needs."""
        if not self.is_for_cpu:
            return {}
        # Without it vLLM computes with one thread where it is not bound to cores. From three cores on one is left free.
        cores = usable_cores()
        return {**_CPU_VARIABLES, "OMP_NUM_THREADS": str(cores if cores < 3 else cores - 1)}

    def __str__(self) -> str:
        return f"{self.path} ({self.version or 'version unknown'})"


def cpu_dtype() -> str:
    """The type in which a model is computed on the CPU: ``bfloat16`` where its instructions exist, else ``float32``.

    Emulated, bfloat16 is slower than float32.
    """
    try:
        words = set(_CPU_INFO.read_text(encoding="utf-8").split())
    except OSError:
        return "float32"
    return "bfloat16" if words & {"avx512_bf16", "amx_bf16"} else "float32"


def find_vllm() -> VllmProgram | None:
    """The program, in this order: in the environment that runs, in ``.venv-vllm``, on the path; None if there is none.

    ``.venv-vllm`` is looked for in the working folder, in the checkout, and beside and in the environment that runs: a
    wheel is installed there.
    """
    programs = Path(sys.executable).parent
    checkout = Path(__file__).resolve().parents[2]
    folders = (Path.cwd(), checkout, programs.parent.parent, programs.parent)
    for path in (str(programs), *(str(folder / ENVIRONMENT / "bin") for folder in folders), None):
        program = shutil.which("vllm", path=path)
        if program is not None:
            return VllmProgram(program, _version(Path(program)))
    return None


def _version(program: Path) -> str:
    """The version of the package in the program's environment."""
    for packages in program.resolve().parents[1].glob("lib/python*/site-packages"):
        for distribution in importlib.metadata.distributions(name="vllm", path=[str(packages)]):
            return distribution.version
    return ""
