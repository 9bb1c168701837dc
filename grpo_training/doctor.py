"""Check what is missing on this machine. Options: ``python -m grpo_training.doctor --help``."""

from grpo_training.cli.entry import run_command
from grpo_training.doctor_checks.run import main

__all__ = ["main"]

if __name__ == "__main__":
    run_command(main)
