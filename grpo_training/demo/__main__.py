"""Run the learning demo on the pocket model. Options: ``python -m grpo_training.demo --help``."""

from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.demo.settings import DemoSettings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(
        DemoSettings,
        argv,
        prog="python -m grpo_training.demo",
        description=(
            "Runs the complete learning loop with a small language model on this machine: three generators and the "
            "critic learn in parallel, then held-out problems show the gain of their libraries. Run the same command "
            "again to continue an interrupted demo: stored completions are reused."
        ),
    )
    from grpo_training.demo.learning import run_demo

    return run_demo(settings)


if __name__ == "__main__":
    run_command(main)
