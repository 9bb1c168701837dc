"""Compare two prompts or models. Options: ``python -m grpo_training.compare --help``."""

import sys
from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.compare.settings import CompareSettings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(
        CompareSettings,
        argv,
        prog="python -m grpo_training.compare",
        description=(
            "Answers the same problems in two ways, A and B, and says which is better: two prompts (--prompt-a, "
            "--prompt-b), two models (--model-a, --model-b), or what `improve` has learned against a prompt "
            "(--improved-b). With --margin 3 it says whether B is at most 3 points worse: whether a model can be "
            "replaced by another one. It stops as soon as that is clear, after 25, 50, 75 or 100 % of the problems. "
            "Run the same command again to continue: stored answers are reused."
        ),
    )
    from grpo_training.compare.run import run_compare

    return run_compare(settings, sys.stdout)


if __name__ == "__main__":
    run_command(main)
