"""Fine-tune a local model with GRPO. Options: ``python -m grpo_training.train --help``."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.processes import say_once


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    config = parse_settings(
        GRPOTrainingConfig,
        argv,
        prog="python -m grpo_training.train",
        description=(
            "Fine-tunes a local model with GRPO: offline on the rollouts that the generators stored, or online on "
            "problems that it samples completions for itself. Writes a LoRA adapter, a merged model that can be "
            "served, metrics and a page of curves to --output-dir. Run the same command again to resume."
        ),
    )
    say_once("reading the data")  # the imports alone may take seconds
    from grpo_training.train.run import train_grpo

    return train_grpo(config)


if __name__ == "__main__":
    run_command(main)
