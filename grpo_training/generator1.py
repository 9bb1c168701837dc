"""Run generator 1. Options: ``python -m grpo_training.generator1 --help``."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_training.cli.entry import run_command


def main(argv: Sequence[str] | None = None, number: int = 1) -> int:
    """Run the command of a generator; the exit code."""
    from grpo_training.cli.parsing import parse_settings
    from grpo_training.learning.settings import GeneratorSettings

    settings = parse_settings(GeneratorSettings, argv, f"grpo_training.generator{number}")
    from grpo_training.learning.generator import run_generator

    return run_generator(number, settings)


if __name__ == "__main__":
    run_command(main)
