"""The settings of ``python -m grpo_training.evaluate``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from grpo_training.cli.settings import (
    DATASET_HELP,
    PHASES,
    POCKET_DATASET,
    WORKING_DIR,
    ColumnSettings,
    Positive,
)
from grpo_training.runs.settings import (
    ENDPOINT_FIELDS,
    PROMPTS_HELP,
    BatchSettings,
    BudgetSettings,
    DryRunSettings,
    ResumableSettings,
)


class EvaluateSettings(DryRunSettings, ColumnSettings, BudgetSettings, BatchSettings, ResumableSettings):
    """Draw samples of a model on problems, judge them, and report pass@k with confidence intervals.

    With --base-model it also reports the difference to another model on the same problems. Run the same command again
    to continue an interrupted evaluation: stored completions are reused.
    """

    group: ClassVar[str] = "what is evaluated, and sampling"
    sections: ClassVar[frozenset[str]] = frozenset({"evaluation"})
    sections_of_others: ClassVar[frozenset[str]] = PHASES - sections
    not_in_fingerprint: ClassVar[Collection[str]] = {
        *("run", "output", "resume", "fresh", "dry_run"),
        *(*ENDPOINT_FIELDS, *BudgetSettings.model_fields, *BatchSettings.model_fields),
    }
    """The fields that do not change the figures."""
    aliases: ClassVar[Mapping[str, str]] = {
        "test_data": "dataset",
        "test_data_path": "dataset",
        "prompt": "prompts",
        "program": "task",
    }

    model_path: Path | None = Field(
        None, description="folder of a model, or of an adapter that names its base model (default: data/models/pocket)"
    )
    model: str | None = Field(None, description="name of the model at --base-url; without that, as --model-path")
    adapter: Path | None = Field(None, description="folder of a PEFT LoRA adapter of the model")
    base_model: Path | None = Field(None, description="folder of a model to compare with on the same problems")
    role: str | None = Field(None, description="evaluate the endpoint of this role of the api config, not a folder")
    dataset: str = Field(f"{POCKET_DATASET}:test", description=DATASET_HELP)
    task: str | None = Field(
        None, description="task of rows that name none, or your own task: a name, FILE.py:NAME or MODULE:NAME"
    )
    max_problems: Positive | None = Field(None, description="number of problems; all by default")
    num_samples: Positive = Field(10, description="samples per problem")
    k_values: tuple[Positive, ...] = Field((1, 5, 10), min_length=1, description="the k of pass@k, such as 1 5 10")
    temperature: float = Field(0.8, ge=0, le=2, description="sampling temperature; 0 is greedy")
    top_p: float | None = Field(0.95, gt=0, le=1, description="nucleus sampling")
    max_tokens: Positive = Field(1024, description="maximum tokens per completion; more for one that ends in thought")
    seed: int = Field(0, description="sampling seed; also changes the samples of servers that ignore seeds")
    prompts: str = Field("full", description=PROMPTS_HELP)
    experiences: Path | None = Field(None, description="library whose experiences are put into the prompts")
    run: str | None = Field(
        None,
        description="name of a run: its library of --role (default: generator_1) is put into the prompts, its tasks "
        "are known, and figures are written to its cache",
    )
    engine: Literal["auto", "transformers", "vllm"] = Field("auto", description="engine that serves a folder")
    output: Path = Field(
        WORKING_DIR / "grpo_training/cache/evaluation_results.json",
        description="file of the figures; samples and the journal of completions are written next to it",
    )

    @model_validator(mode="before")
    @classmethod
    def _folder_in_model(cls, values: Any) -> Any:
        """``--model`` alone is the folder of a model."""
        if isinstance(values, dict) and values.get("model") and not (values.get("base_url") or values.get("role")):
            if values.get("model_path"):
                raise ValueError("--model and --model-path exclude each other, except with --base-url")
            values = {**values, "model_path": values["model"], "model": None}
        return values

    @field_validator("output")
    @classmethod
    def _is_no_journal(cls, value: Path) -> Path:
        if value.suffix == ".sqlite":
            raise ValueError("a .sqlite file of this name has the replies: give another ending, such as .json")
        return value

    @field_validator("k_values", mode="before")
    @classmethod
    def _read_list(cls, value: Any) -> Any:
        return value.replace(",", " ").split() if isinstance(value, str) else value
