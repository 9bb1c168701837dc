"""Look at runs in a browser: ``python -m grpo_training.view [FOLDER ...]``."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.view.arguments import parse_arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Serve the pages until Ctrl-C, or write them to a file; the exit code."""
    arguments = parse_arguments(argv)
    from grpo_training.view.start import view

    return view(arguments)


if __name__ == "__main__":
    run_command(main, resumes=False)
