"""Serve a local model over the OpenAI protocol. Options: ``python -m grpo_training.serve --help``."""

from grpo_training.cli.entry import run_command
from grpo_training.serving.serve import main

__all__ = ["main"]

if __name__ == "__main__":
    run_command(main)
