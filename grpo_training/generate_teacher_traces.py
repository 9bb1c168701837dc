"""Generate teacher traces and keep those that pass the tests: ``python -m grpo_training.generate_teacher_traces``."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.teacher.settings import TeacherSettings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(TeacherSettings, argv, "grpo_training.generate_teacher_traces")
    from grpo_training.teacher.generate import run

    return run(settings)


if __name__ == "__main__":
    run_command(main)
