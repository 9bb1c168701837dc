"""Run the fine-tuning demo on the pocket model. Options: ``python -m grpo_training.train_demo --help``."""

from grpo_training.cli.entry import run_command
from grpo_training.demos.training import main

__all__ = ["main"]

if __name__ == "__main__":
    run_command(main)
