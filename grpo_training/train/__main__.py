"""Fine-tune a local model with GRPO. Options: ``python -m grpo_training.train --help``."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.cli.terminal_text import say
from grpo_training.train.config import GRPOTrainingConfig, load_config
from grpo_training.train.processes import is_first_process

__all__ = ["GRPOTrainingConfig", "load_config", "main", "train_grpo"]


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
    if is_first_process():
        say("reading the data")  # the imports alone may take seconds
    return train_grpo(config)


def train_grpo(config: GRPOTrainingConfig) -> int:
    """Train as a configuration describes. Returns the exit code."""
    from grpo_training.train.run import train_grpo

    return train_grpo(config)


if __name__ == "__main__":
    run_command(main, collects_rarely=True)  # a training starts in an eighth less time
