"""Compare two prompts or models. Options: ``python -m grpo_training.compare --help``."""

import sys
from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.compare.settings import CompareSettings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(CompareSettings, argv, "grpo_training.compare")
    from grpo_training.compare.run import run_compare

    return run_compare(settings, sys.stdout)


if __name__ == "__main__":
    run_command(main)
