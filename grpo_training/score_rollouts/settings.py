"""Settings of ``python -m grpo_training.score_rollouts``, and the options that tasks add to them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from engine.errors import InputError
from engine.task import Task
from engine.task_protocols import HasCheckOptions
from engine.tasks.registry import known_tasks, load_task
from grpo_training.cli.settings import Positive, Settings
from grpo_training.runs.settings import ResumableSettings


class ScoreSettings(ResumableSettings):
    """Verify rollouts that any program sampled.

    Writes the same rows with verdict, reward and advantage, for offline training (train --dataset-path). Run the same
    command again to continue an interrupted run.
    """

    group: ClassVar[str] = "files and rows"
    not_in_fingerprint: ClassVar[Collection[str]] = (
        *("task", "prompts", "rollouts", "out", "cache", "workers", "resume", "fresh"),
    )
    """Fields that do not change the rows; the contents of prompts and rollouts count by their hashes."""
    read_beside: ClassVar[Mapping[str, Sequence[str]]] = {
        "out": ("prompts", "rollouts", "cache"),
        "cache": ("prompts", "rollouts"),
    }

    task: str | None = Field(
        None, description="task: a name, FILE.py:NAME or MODULE:NAME; by default the one of the prompts"
    )
    prompts: str = Field(description="the problems, with ids: a file or the name of a dataset")
    rollouts: Path = Field(description="JSONL file, one reply per row, with the id of its prompt")
    out: Path = Field(description="file of the scored rows")
    cache: Path | None = Field(None, description="JSONL file of verdicts that several runs share")
    workers: Positive = Field(2, description="processes that verify; 1: in the process of the command")
    prompt_style: str = Field("full", description="prompt style of the field prompt, where a row has none")
    skip_bad_rows: bool = Field(False, description="leave out rows that cannot be scored, instead of an error")

    @property
    def report_path(self) -> Path:
        """``NAME_report.json`` beside the out file without its ``_scored``, or in ``../reports`` of ``rewards``."""
        stem, folder = self.out.stem.removesuffix("_scored") or self.out.stem, self.out.parent
        return (folder.parent / "reports" if folder.name == "rewards" else folder) / f"{stem}_report.json"

    def beside_out(self, suffix: str) -> Path:
        """A file beside the out file that belongs to it."""
        return self.out.with_name(f"{self.out.stem}{suffix}")


def with_check_options(argv: Sequence[str]) -> type[ScoreSettings]:
    """The settings with the options of the task that ``argv`` names, or of all tasks of the project."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--task", nargs="?")
    reference = parser.parse_known_args(argv)[0].task or None
    tasks = known_tasks() if reference is None else [load_task(reference)]
    bases: list[type[Settings]] = [ScoreSettings]
    for task in tasks:
        if isinstance(task, HasCheckOptions):
            options: dict[str, Any] = {"group": (ClassVar[str], f"task {task.name}")}
            options |= {name: _optional(field) for name, field in type(task.check_options).model_fields.items()}
            bases.append(create_model("TaskOptions", __base__=Settings, **options))
    return type("ScoreSettings", tuple(bases), {"__doc__": ScoreSettings.__doc__})


def configured(task: Task, settings: ScoreSettings) -> Task:
    """The task with the options that were given.

    Raises:
        InputError: an option that this task does not have was given, or a value is wrong.
    """
    added = type(settings).model_fields.keys() - ScoreSettings.model_fields.keys()
    given = {name: value for name in added if (value := getattr(settings, name)) is not None}
    options = task.check_options if isinstance(task, HasCheckOptions) else None
    if unknown := sorted(given.keys() - (type(options).model_fields if options is not None else {})):
        flag = f"--{unknown[0].replace('_', '-')}"
        raise InputError(f"The task {task.name} has no option {flag}", fix="Leave it out, or name another --task.")
    if not isinstance(task, HasCheckOptions) or options is None:
        return task
    for name in given:
        if why := type(options).model_fields[name].deprecated:
            print(f"--{name.replace('_', '-')} has no effect: {why}.", file=sys.stderr)
    try:
        return task.with_check_options(type(options).model_validate({**options.model_dump(), **given}))
    except ValidationError as error:
        raise InputError(f"The options of the task {task.name} do not fit together", why=str(error)) from None


def _optional(field: FieldInfo) -> tuple[Any, Any]:
    """A field that is None where it is not given; the default stands in its description."""
    shown = "" if field.default in (None, False) else f" (default: {field.default})"
    annotation: Any = field.annotation
    return annotation | None, Field(None, description=f"{field.description}{shown}")
