"""Settings of ``prepare_data`` and ``generate_teacher_traces``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, create_model, model_validator

from engine.records import Sampling
from engine.task_datasets import DataPreparation
from grpo_training.cli.settings import PHASES, WORKING_DIR, Positive, Settings
from grpo_training.runs.settings import ClientSettings, ResumableSettings


class PrepareSettings(Settings):
    """Select problems for training from the datasets of the tasks.

    Keeps the problems that can be used, splits them by hash, and reports what was dropped and why.
    """

    sections_of_others: ClassVar[frozenset[str]] = PHASES

    output_dir: Path = Field(WORKING_DIR / "data", description="folder of train.jsonl, val.jsonl and data_report.json")
    seed: int = Field(42, description="seed of the split")
    train_share: float = Field(0.8, gt=0, lt=1, description="share of the problems for training")
    near_duplicate: float = Field(
        0.8,
        gt=0,
        le=1,
        description="drop training problems this similar to a validation problem (Jaccard index of word triples)",
    )


def with_task_options(preparations: Sequence[DataPreparation]) -> type[PrepareSettings]:
    """The settings of ``prepare_data`` with the options of the tasks."""
    options = (type(preparation).model_fields.items() for preparation in preparations)
    fields: dict[str, Any] = {name: (field.annotation, field) for of_task in options for name, field in of_task}
    return create_model("PrepareSettings", __base__=PrepareSettings, **fields)


class AcceptanceSettings(Settings):
    """Which traces are accepted for training, and the prompt that they are stored with."""

    group: ClassVar[str] = "acceptance"

    output: Path = Field(WORKING_DIR / "data/teacher_traces.jsonl", description="file of the traces")
    prompts: str = Field("full", description="prompt style; use the one that the student is trained with")
    accept_per_task: Positive = Field(2, description="maximum accepted traces per problem; the shortest are accepted")
    max_chars: Positive = Field(24_000, description="maximum characters of an accepted reply, with its thinking")


class VerifySettings(AcceptanceSettings):
    """Run the tests of the teacher traces of another program.

    All traces are written with their results; only right ones are accepted for training. No model is asked.
    """

    sections_of_others: ClassVar[frozenset[str]] = PHASES

    traces: Path = Field(description="JSONL file of traces: task_id, prompt, full_response (or code), test_list")
    train_data: Path | None = Field(
        None, description="file of the problems, whose tests then count instead of those of the traces"
    )


class TeacherSettings(AcceptanceSettings, ClientSettings, ResumableSettings):
    """Ask the teacher each problem several times, score every reply, and keep all of them with their results.

    Only right ones are accepted for training. The same command again continues where it stopped and pays for nothing
    twice.
    """

    sections: ClassVar[frozenset[str]] = frozenset({"teacher"})
    sections_of_others: ClassVar[frozenset[str]] = PHASES - sections
    aliases: ClassVar[Mapping[str, str]] = {
        "num_samples_per_problem": "num_samples",
        "max_concurrent_requests": "concurrency",
        "teacher.api_url": "base_url",
        "teacher.model_name": "model",
        "teacher.max_new_tokens": "max_tokens",
    }

    group: ClassVar[str] = "problems and sampling"
    fingerprinted: ClassVar[Sequence[str]] = (
        *("temperature", "top_p", "max_tokens", "seed", "prompts", "accept_per_task", "max_chars"),
    )
    """The fields that change a trace."""
    read_beside: ClassVar[Mapping[str, Sequence[str]]] = {"output": ("train_data", "dataset")}

    train_data: Path | None = Field(None, description="JSONL file of problems; by default data/train.jsonl")
    dataset: str | None = Field(None, description="name of a dataset, instead of --train-data")
    num_samples: Positive = Field(8, description="replies per problem")
    max_tasks: Positive | None = Field(None, description="maximum number of problems, from the start")
    test_connection: bool = Field(False, description="ask the teacher one small problem, print the result, and stop")
    concurrency: Positive = Field(32, description="maximum number of requests in flight")
    temperature: float = Field(0.7, ge=0, le=2, description="sampling temperature")
    top_p: float | None = Field(0.8, gt=0, le=1, description="nucleus sampling")
    presence_penalty: float | None = Field(
        None, ge=-2, le=2, description="added to the extra_body of the endpoint; makes a model avoid names it has used"
    )
    enable_thinking: bool | None = Field(
        None, description="added to the extra_body of the endpoint: thinking of models whose template has a switch"
    )
    max_tokens: Positive = Field(8192, description="maximum tokens of a reply, with its thinking")
    seed: int = Field(0, description="seed of the sampling")

    @model_validator(mode="after")
    def _file_or_dataset(self) -> Self:
        if self.train_data is not None and self.dataset is not None:
            raise ValueError("--train-data and --dataset exclude each other")
        return self

    @property
    def sampling(self) -> Sampling:
        """How replies are sampled."""
        return Sampling(temperature=self.temperature, top_p=self.top_p, max_tokens=self.max_tokens, seed=self.seed)

    def extra_body(self, configured: Mapping[str, Any]) -> dict[str, Any]:
        """The ``extra_body`` of the endpoint with the settings that are sent there."""
        body = dict(configured)
        if self.presence_penalty is not None:
            body["presence_penalty"] = self.presence_penalty
        if self.enable_thinking is not None:
            template = body.get("chat_template_kwargs") or {}
            body["chat_template_kwargs"] = {**template, "enable_thinking": self.enable_thinking}
        return body
