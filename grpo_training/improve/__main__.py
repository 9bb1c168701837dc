"""Improve a model's answers to a kind of problem: ``python -m grpo_training.improve --help``."""

import sys
from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.improve.settings import ImproveSettings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(
        ImproveSettings,
        argv,
        prog="python -m grpo_training.improve",
        description=(
            "Learns experiences from problems with right answers, tests on problems that they do not come from whether "
            "they help, and says so in one sentence. What can be used afterwards is written to runs/NAME/improved: a "
            "prompt, the experiences, a report, and an example in Python. Run the same command again to continue an "
            "interrupted run; nothing is paid for twice."
        ),
    )
    from grpo_training.improve.run import run_improve

    return run_improve(settings, sys.stdout)


if __name__ == "__main__":
    run_command(main)
