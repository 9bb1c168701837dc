"""Run the learning demo on the pocket model. Options: ``python -m grpo_training.demo --help``."""

from grpo_training.cli.entry import run_command
from grpo_training.demos.learning import main

__all__ = ["main"]

if __name__ == "__main__":
    run_command(main)
