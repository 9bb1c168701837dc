"""The settings of ``serve`` and ``replay_server``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from engine.api_manager import LEARNERS
from engine.errors import InputError
from engine.storage.shipped_files import shipped_file
from grpo_training.cli.entry import CommandParser
from grpo_training.cli.settings import POCKET_MODEL, Settings
from grpo_training.runs.learner_files import library_file, results_file

EXAMPLE = shipped_file("recorded")
"""Recordings of the pocket model on the first problems of the dataset ``POCKET_DATASET``."""
EXAMPLE_FILES = tuple(path for role in LEARNERS for path in (results_file(EXAMPLE, role), library_file(EXAMPLE, role)))


class ServeSettings(Settings):
    """Settings of ``python -m grpo_training.serve``."""

    model: Path = Field(POCKET_MODEL, description="folder of the model, or its name on the hub")
    adapter: Path | None = Field(None, description="folder of a PEFT LoRA adapter of the model")
    engine: Literal["auto", "transformers", "vllm"] = Field(
        "auto", description="auto: vLLM if a build for this machine is installed (make vllm), else transformers"
    )
    port: int = Field(8129, ge=0, le=65535, description="port on 127.0.0.1; 0 takes a free one")
    temperature: float = Field(
        1.0, ge=0, le=2, description="sampling temperature; transformers uses it for all requests"
    )
    log: Path | None = Field(None, description="file for the server's output")


@dataclass(frozen=True)
class ReplaySettings:
    """Settings of ``python -m grpo_training.replay_server``.

    Args:
        recorded: files of recorded rollouts and fusions.
        host: address to listen on.
        port: 0 takes a free one.
        latency_s: seconds before each reply.
    """

    recorded: tuple[Path, ...]
    host: str
    port: int
    latency_s: float

    @classmethod
    def parse(cls, argv: Sequence[str] | None) -> ReplaySettings:
        """Read the command line. ``--recorded`` takes several files; :class:`Settings` would split names at commas.

        Raises:
            InputError: a flag is wrong.
        """
        parser = CommandParser(
            prog="python -m grpo_training.replay_server",
            description="Serves recorded rollouts, fusions and experiences over the OpenAI chat protocol. Without "
            "arguments, those of the project's example, which the pocket model has made.",
        )
        parser.add_argument("--recorded", nargs="+", type=Path, default=None, metavar="FILE",
                            help="rollouts, fusions and libraries by their names (default: the example)")  # fmt: skip
        parser.add_argument("--port", type=int, default=8130,
                            help="port; 0 takes a free one, which is printed (default: %(default)s)")  # fmt: skip
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
        parser.add_argument("--latency-s", type=float, default=0.0, metavar="X",
                            help="seconds before each reply (default: %(default)s)")  # fmt: skip
        flags = parser.parse_args(argv)
        if not 0 <= flags.port <= 65535:
            raise InputError(f"--port: expected a number from 0 to 65535, got {flags.port}")
        if not 0 <= flags.latency_s < math.inf:
            raise InputError(f"--latency-s: expected seconds >= 0, got {flags.latency_s}")
        files = EXAMPLE_FILES if flags.recorded is None else flags.recorded
        return cls(tuple(files), flags.host, flags.port, flags.latency_s)
