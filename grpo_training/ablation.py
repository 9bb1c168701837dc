"""Measure what each part of the offline fine-tune contributes. Options: ``python -m grpo_training.ablation --help``."""

from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.demo.settings import AblationSettings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(
        AblationSettings,
        argv,
        prog="python -m grpo_training.ablation",
        description=(
            "Trains the model on the same collected rollouts in several ways, several times each, and compares the "
            "results on held-out problems without experiences in the prompt. Prints a Markdown table. Run the same "
            "command again to continue an interrupted ablation."
        ),
    )
    from grpo_training.demo.ablation import run_ablation

    return run_ablation(settings)


if __name__ == "__main__":
    run_command(main)
