"""Fine-tune a local model with GRPO. Options: ``python -m grpo_training.train --help``."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.processes import say_once


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    config = parse_settings(GRPOTrainingConfig, argv, "grpo_training.train")
    say_once("reading the data")  # the imports alone may take seconds
    from grpo_training.train.run import train_grpo

    return train_grpo(config)


if __name__ == "__main__":
    run_command(main)
