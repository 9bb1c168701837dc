"""Browse and edit experience libraries. Options: ``python -m grpo_training.experiences --help``."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.experiences.arguments import parse_arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    arguments = parse_arguments(argv)
    from grpo_training.experiences.commands import run_subcommand

    return run_subcommand(arguments)


if __name__ == "__main__":
    run_command(main, resumes=False)
