"""Run the critic. Options: ``python -m grpo_training.critic --help``."""

from grpo_training.cli.entry import run_command
from grpo_training.learning.critic import main

__all__ = ["main"]

if __name__ == "__main__":
    run_command(main)
