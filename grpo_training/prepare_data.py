"""Prepare programming problems for training. Options: ``python -m grpo_training.prepare_data --help``."""

from grpo_training.cli.entry import run_command
from grpo_training.teacher.prepare_data import main

__all__ = ["main"]

if __name__ == "__main__":
    run_command(main)
