"""Prepare problems for training: ``python -m grpo_training.prepare_data``."""

from __future__ import annotations

from collections.abc import Sequence

from engine.task_protocols import PreparesData
from engine.tasks.registry import known_tasks
from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.teacher.settings import with_task_options


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    preparations = [task.preparation for task in known_tasks() if isinstance(task, PreparesData)]
    settings = parse_settings(with_task_options(preparations), argv, "grpo_training.prepare_data")
    from grpo_training.teacher.prepare_data import run

    return run(settings, preparations)


if __name__ == "__main__":
    run_command(main, resumes=False)
