"""Evaluate a model: pass@k with confidence intervals. Options: ``python -m grpo_training.evaluate --help``."""

from grpo_training.cli.entry import run_command
from grpo_training.evaluation.settings import main

__all__ = ["main"]

if __name__ == "__main__":
    run_command(main)
