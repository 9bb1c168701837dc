"""Improve a model's answers to a kind of problem: ``python -m grpo_training.improve --help``."""

import sys
from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.improve.settings import ImproveSettings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(ImproveSettings, argv, "grpo_training.improve")
    from grpo_training.improve.run import run_improve

    return run_improve(settings, sys.stdout)


if __name__ == "__main__":
    run_command(main)
