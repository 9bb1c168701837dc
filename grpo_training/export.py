"""Write rollouts and tasks for other programs: ``python -m grpo_training.export CACHE --to FORMAT --output FILE``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_training.caches.arguments import export_arguments
from grpo_training.cli.entry import run_command

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    arguments = export_arguments(argv)
    from grpo_training.caches.export import export

    return export(arguments)


if __name__ == "__main__":
    run_command(main, resumes=False)
