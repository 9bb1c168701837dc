"""Test whether a library helps. Options: ``python -m grpo_training.gate --help``."""

import sys
from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.gate.settings import GateSettings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(GateSettings, argv, "grpo_training.gate")
    from grpo_training.gate.run import run_gate

    return run_gate(settings, sys.stdout)


if __name__ == "__main__":
    run_command(main)
