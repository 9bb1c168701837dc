"""Extract experiences from stored rollouts again. Options: ``python -m grpo_training.experience_extractor --help``."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.learning.settings import ExtractorSettings


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    settings = parse_settings(ExtractorSettings, argv, "grpo_training.experience_extractor")
    from grpo_training.learning.stored_groups import run_extractor

    return run_extractor(settings)


if __name__ == "__main__":
    run_command(main)
