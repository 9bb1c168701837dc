"""Evaluate a model: pass@k with confidence intervals. Options: ``python -m grpo_training.evaluate --help``."""

import sys
from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.evaluate.settings import EvaluateSettings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(EvaluateSettings, argv, "grpo_training.evaluate")
    from grpo_training.evaluate.run import evaluate

    return evaluate(settings, sys.stdout)


if __name__ == "__main__":
    run_command(main)
