"""Traffic signals: scenarios, datasets, policies. Options: ``python -m grpo_training.traffic --help``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from engine.errors import InputError
from grpo_training.cli.entry import HELP_FLAGS, run_command
from grpo_training.cli.settings import parse_settings
from grpo_training.cli.terminal_text import fitted
from grpo_training.traffic.settings import STEPS

_PROG = "python -m grpo_training.traffic"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one step. Returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in HELP_FLAGS:
        print(f"usage: {_PROG} STEP [options]\n\nSteps (each has its own --help):")
        for name, settings in STEPS.items():
            print(fitted(f"  {name:11}  {settings.summary}"))
        return 0
    if words[0] not in STEPS:
        raise InputError(f"Unknown step {words[0]!r}", fix=f"Choose one of: {', '.join(STEPS)}.")
    step = STEPS[words[0]]
    parsed = parse_settings(step, words[1:], prog=f"{_PROG} {words[0]}", description=step.summary)
    from grpo_training.traffic.steps import run_step

    return run_step(parsed)


if __name__ == "__main__":
    run_command(main)
