"""Phaser games: prompts, rollouts, validation. Options: ``python -m grpo_training.phaser --help``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from engine.errors import InputError
from grpo_training.cli.entry import HELP_FLAGS, run_command
from grpo_training.cli.settings import parse_settings
from grpo_training.phaser.settings import SCORE, STEPS, step_name, usage, with_flag
from grpo_training.score_rollouts import __main__ as score_rollouts

_PROG = "python -m grpo_training.phaser"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one step. Returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in HELP_FLAGS:
        print("\n".join(usage(_PROG)))
        return 0
    name = step_name(words[0])
    if name == SCORE:
        return score_rollouts.main(words[1:])
    step = STEPS.get(name)
    if step is None:
        raise InputError(f"Unknown step {words[0]!r}", fix=f"Choose one of: {', '.join([*STEPS, SCORE])}.")
    parsed = parse_settings(step, with_flag(step, words[1:]), prog=f"{_PROG} {name}", description=step.summary)
    from grpo_training.phaser.steps import run_step

    return run_step(parsed)


if __name__ == "__main__":
    run_command(main)
