"""Browse and edit experience libraries. Options: ``python -m grpo_training.experiences --help``."""

from grpo_training.cli.entry import run_command
from grpo_training.libraries.commands import main

__all__ = ["main"]

if __name__ == "__main__":
    run_command(main)
