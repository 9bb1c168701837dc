"""Run generator 2. Options: ``python -m grpo_training.generator2 --help``."""

from __future__ import annotations

from functools import partial

from grpo_training import generator1
from grpo_training.cli.entry import run_command

main = partial(generator1.main, number=2)
"""Run the command; the exit code."""


if __name__ == "__main__":
    run_command(main)
