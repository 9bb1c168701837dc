"""Run generator 1. Options: ``python -m grpo_training.generator1 --help``."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_training.cli.entry import run_command


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    from grpo_training.learning.settings import parse_generator_settings

    settings = parse_generator_settings(1, argv)
    from grpo_training.learning.generator import run_generator

    return run_generator(1, settings)


if __name__ == "__main__":
    run_command(main)
