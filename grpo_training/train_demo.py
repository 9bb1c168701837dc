"""Run the fine-tuning demo on the pocket model. Options: ``python -m grpo_training.train_demo --help``."""

from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.demo.settings import TrainDemoSettings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(
        TrainDemoSettings,
        argv,
        prog="python -m grpo_training.train_demo",
        description=(
            "Runs the complete fine-tune with a small model on this machine: three generators collect rollouts, the "
            "model is trained offline and then online, and held-out problems show the gain of each step without "
            "experiences in the prompt. Run the same command again to continue an interrupted demo."
        ),
    )
    from grpo_training.demo.training import run_train_demo

    return run_train_demo(settings)


if __name__ == "__main__":
    run_command(main)
