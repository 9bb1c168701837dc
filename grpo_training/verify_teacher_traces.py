"""Execute the tests of traces of another program: ``python -m grpo_training.verify_teacher_traces``."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.teacher.settings import VerifySettings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(VerifySettings, argv, "grpo_training.verify_teacher_traces")
    from grpo_training.teacher.verify import run

    return run(settings)


if __name__ == "__main__":
    run_command(main, resumes=False)
