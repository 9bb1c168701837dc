"""Choose shots: beams, SFT, RCE and GRPO. Options: ``python -m grpo_training.selector --help``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.steps import run_step
from grpo_training.selector.settings import STEPS


def main(argv: Sequence[str] | None = None) -> int:
    """Run one step. Returns the exit code."""
    return run_step(sys.argv[1:] if argv is None else argv, "grpo_training.selector", STEPS)


if __name__ == "__main__":
    run_command(main)
