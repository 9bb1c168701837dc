"""Serve recorded rollouts over the OpenAI protocol. Options: ``python -m grpo_training.replay_server --help``."""

from grpo_training.cli.entry import run_command
from grpo_training.serving.replay import main

__all__ = ["main"]

if __name__ == "__main__":
    run_command(main)
