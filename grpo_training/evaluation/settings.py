"""``python -m grpo_training.evaluate``: how often a model is right, with pass@k, and what a fine-tune has gained."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from grpo_training.cli.settings import WORKING_DIR, Positive, parse_settings
from grpo_training.runs.settings import ResumableSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_NOT_IN_FINGERPRINT = {"output", "resume", "fresh", "api_config", "budget_usd", "budget_tokens"}


class EvaluateSettings(ResumableSettings):
    """Settings of ``python -m grpo_training.evaluate``."""

    aliases: ClassVar[Mapping[str, str]] = {"model": "model_path", "test_data": "dataset", "test_data_path": "dataset"}

    model_path: Path | None = Field(
        None, description="folder of the model, or of an adapter that names its model (default: data/models/pocket)"
    )
    adapter: Path | None = Field(None, description="a PEFT LoRA folder on top of it")
    base_model: Path | None = Field(None, description="a model to compare with, on the same problems")
    role: str | None = Field(None, description="instead of a folder, the endpoint of this role of the api config")
    dataset: str = Field("quickstart:test", description="quickstart:test, aime2024, mbpp, or the path of a JSONL file")
    max_problems: Positive | None = Field(None, description="how many problems; all by default")
    num_samples: Positive = Field(10, description="samples per problem")
    k_values: tuple[Positive, ...] = Field((1, 5, 10), min_length=1, description="the k of pass@k, such as 1 5 10")
    greedy: bool = Field(False, description="also one greedy sample per problem (temperature 0)")
    temperature: float = Field(0.8, gt=0, le=2, description="temperature of the samples")
    top_p: float | None = Field(0.95, gt=0, le=1, description="nucleus sampling of the samples")
    max_tokens: Positive = Field(1024, description="completion tokens a reply may have")
    seed: int = Field(0, description="another seed draws other samples, also where the server takes none")
    prompts: str = Field("full", description="prompt style: full, or a folder of prompts/ such as compact")
    experiences: Path | None = Field(None, description="a library whose lessons stand in the prompts; none by default")
    engine: Literal["auto", "transformers", "vllm"] = Field("auto", description="what serves a folder")
    api_config: Path = Field(WORKING_DIR / "data/api_keys/api_config.json", description="endpoints and keys of --role")
    budget_usd: float | None = Field(None, ge=0, description="stop before this run costs more (needs prices)")
    budget_tokens: Positive | None = Field(None, description="stop before this run uses more tokens")
    output: Path = Field(
        WORKING_DIR / "grpo_training/cache/evaluation_results.json",
        description="the figures; samples and the journal of replies stand beside it",
    )

    @classmethod
    def fingerprint_fields(cls) -> list[str]:
        """The fields that change the figures."""
        return [name for name in cls.model_fields if name not in _NOT_IN_FINGERPRINT]

    @field_validator("k_values", mode="before")
    @classmethod
    def _read_list(cls, value: Any) -> Any:
        return value.replace(",", " ").split() if isinstance(value, str) else value


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(
        EvaluateSettings,
        as_one_value(sys.argv[1:] if argv is None else argv),
        prog="python -m grpo_training.evaluate",
        description=(
            "Draws samples of a model on problems, judges them, and tells pass@k with intervals; with --base-model "
            "also what the model gains over another on the same problems. The same command again goes on where it "
            "stopped and pays for nothing twice."
        ),
    )
    from grpo_training.evaluation.run import evaluate

    return evaluate(settings, sys.stdout)


def as_one_value(argv: Sequence[str]) -> list[str]:
    """Join what follows ``--k-values`` with commas: both ``--k-values 1 5 10`` and ``--k-values 1,5,10`` are meant."""
    joined: list[str] = []
    is_open = False
    for word in argv:
        if is_open and word.replace(",", "").isdecimal():
            joined[-1] += word if joined[-1].endswith("=") else f",{word}"
            continue
        joined.append(word)
        is_open = word in ("--k-values", "--k_values")
        if is_open:
            joined[-1] += "="
    return [word[:-1] if word in ("--k-values=", "--k_values=") else word for word in joined]
