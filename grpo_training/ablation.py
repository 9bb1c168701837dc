"""Measure what each part of the fine-tune contributes. Options: ``python -m grpo_training.ablation --help``."""

from grpo_training.cli.entry import run_command
from grpo_training.demos.ablation import main

__all__ = ["main"]

if __name__ == "__main__":
    run_command(main)
