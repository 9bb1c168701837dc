"""Score rollouts of any program: ``python -m grpo_training.score_rollouts --help``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.score_rollouts.settings import with_check_options


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    settings = parse_settings(with_check_options(words), words, "grpo_training.score_rollouts")
    from grpo_training.score_rollouts.run import score

    return score(settings)


if __name__ == "__main__":
    run_command(main)
