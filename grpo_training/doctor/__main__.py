"""Check what is missing on this machine: ``python -m grpo_training.doctor``."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.doctor.settings import DoctorSettings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the number of failed checks, at most 125."""
    settings = parse_settings(DoctorSettings, argv, "grpo_training.doctor")
    from grpo_training.doctor.run import run_checks

    return run_checks(settings)


if __name__ == "__main__":
    run_command(main, resumes=False)
