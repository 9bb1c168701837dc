"""Run generator 3. Options: ``python -m grpo_training.generator3 --help``."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_training.cli.entry import run_command


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    from grpo_training.cli.parsing import parse_settings
    from grpo_training.learning.settings import GeneratorSettings

    settings = parse_settings(GeneratorSettings, argv, "grpo_training.generator3")
    from grpo_training.learning.generator import run_generator

    return run_generator(3, settings)


if __name__ == "__main__":
    run_command(main)
