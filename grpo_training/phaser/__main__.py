"""Phaser games: prompts, rollouts, validation. Options: ``python -m grpo_training.phaser --help``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.steps import run_step
from grpo_training.phaser.settings import SCORE, STEPS, step_name
from grpo_training.score_rollouts import __main__ as score_rollouts


def main(argv: Sequence[str] | None = None) -> int:
    """Run one step. Returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and (name := step_name(words[0])) in STEPS:
        words[0] = name
    if words and words[0] == SCORE:
        return score_rollouts.main(words[1:])
    return run_step(words, "grpo_training.phaser", STEPS)


if __name__ == "__main__":
    run_command(main)
