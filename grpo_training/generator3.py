"""Run generator 3. Options: ``python -m grpo_training.generator3 --help``."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_training.cli.entry import run_command


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    from grpo_training.learning.settings import parse_generator_settings

    settings = parse_generator_settings(3, argv)
    from grpo_training.learning.generator import run_generator

    return run_generator(3, settings)


if __name__ == "__main__":
    run_command(main)
