"""Evaluations: the files of figures that ``python -m grpo_training.evaluate`` writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from engine.errors import InputError
from engine.statistics.paired import Estimate

SAMPLES = ".samples.jsonl"
"""The end of the name of the file of samples, which is beside that of the figures."""
_MAX_BYTES = 64 << 20

_Number = Annotated[float, msgspec.Meta(gt=-1e12, lt=1e12)]
_Count = Annotated[int, msgspec.Meta(ge=0, lt=10**12)]


class Usage(msgspec.Struct, frozen=True):
    """Tokens and price of all completions; the price is None without prices."""

    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0
    cost_usd: _Number | None = None


TaskResult = dict[str, int | float]
"""Right and all samples of a problem: ``num_correct``, ``num_total``."""


class Side(msgspec.Struct, frozen=True):
    """The figures of one model."""

    model: str = ""
    num_tasks: _Count = 0
    num_samples_per_task: _Count = 0
    mean_at_n: Estimate | None = None
    pass_at_k_estimates: dict[str, Estimate] = {}
    a_a_difference: Estimate | None = None
    truncated: _Number | None = None
    unreadable: _Number | None = None
    outcomes: dict[str, _Count] = {}
    left_out: list[str] = []
    usage: Usage = msgspec.field(default_factory=Usage)
    seconds: _Number | None = None
    task_results: dict[str, TaskResult] = {}


class Report(Side, frozen=True):
    """The figures of an evaluation; ``base`` is the model that it was compared with, on the same problems."""

    test_data_path: str = ""
    timestamp: str = ""
    settings: dict[str, Any] = {}
    base: Side | None = None
    difference_to_base: dict[str, dict[str, Estimate]] = {}

    @property
    def difference(self) -> Estimate | None:
        """The difference of the shares of right samples; None without a base."""
        return self.difference_to_base.get("sampled", {}).get("1")


@dataclass(frozen=True)
class Evaluation:
    """The file of figures of an evaluation."""

    id: str
    name: str
    path: Path

    def report(self) -> Report:
        """Its figures.

        Raises:
            InputError: the file is not one of figures, or too large.
        """
        try:
            if self.path.stat().st_size > _MAX_BYTES:
                raise InputError(f"{self.path} is larger than {_MAX_BYTES >> 20} MiB")
            return msgspec.json.decode(self.path.read_bytes(), type=Report)
        except (OSError, msgspec.MsgspecError, RecursionError) as error:
            why = f"It has no figures of an evaluation: {error}"[:300]
            raise InputError(f"Cannot read {self.path}", why=why) from None
