"""Fine-tune a local model with GRPO. Options: ``python -m grpo_training.train --help``."""

from grpo_training.cli.entry import run_command
from grpo_training.finetune.train import main

__all__ = ["main"]

if __name__ == "__main__":
    run_command(main)
