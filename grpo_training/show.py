"""Print the group of a problem with its replies: ``python -m grpo_training.show CACHE PROBLEM_ID``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_training.caches.arguments import show_arguments
from grpo_training.cli.entry import run_command

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    arguments = show_arguments(argv)
    from grpo_training.caches.show import show

    return show(arguments)


if __name__ == "__main__":
    run_command(main, resumes=False)
