"""Test whether a library helps. Options: ``python -m grpo_training.gate --help``."""

import sys
from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.gate.settings import GateSettings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(
        GateSettings,
        argv,
        prog="python -m grpo_training.gate",
        description=(
            "Answers problems with and without the experience library of a generator, and says whether it helps: "
            "adopted, rejected, or not proven, with an interval. It stops as soon as that is clear, after 25, 50, 75 "
            "or 100 % of the problems, unless --ask-all is given. A problem "
            "that experiences were learned from is asked without those. The "
            "verdict is written into the library's log; a rejected library is not used any more. Run the same command "
            "again to continue an interrupted gate: stored answers are reused."
        ),
    )
    from grpo_training.gate.run import run_gate

    return run_gate(settings, sys.stdout)


if __name__ == "__main__":
    run_command(main)
