"""Print the group of a problem with its replies: ``python -m grpo_training.show CACHE PROBLEM_ID``."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from engine.api_manager import LEARNERS
from grpo_training.cli.entry import CommandParser, run_command


def show_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line of ``show``: ``cache``, ``problem_id``, ``role``, ``epoch``, ``chars`` and ``json``."""
    parser = CommandParser(
        prog="python -m grpo_training.show",
        usage="%(prog)s CACHE [PROBLEM_ID] [options]",
        description="Print what is stored about a problem: each rollout with its answer, rewards, experiences and "
        "reply, and the critic's fusions. Without a problem, list the problems.",
    )
    parser.add_argument("cache", type=Path, metavar="CACHE", help="cache folder, such as grpo_training/cache")
    parser.add_argument("problem_id", nargs="?", metavar="PROBLEM_ID", help="id of the problem, or a part of it")
    parser.add_argument("--role", choices=LEARNERS, help="only this generator, or the critic")
    parser.add_argument("--epoch", type=int, help="only this epoch")
    parser.add_argument("--chars", type=int, default=4000, metavar="N",
                        help="most characters of a reply; 0: all (default: %(default)s)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the stored records, one JSON object a line")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    arguments = show_arguments(argv)
    from grpo_training.show.answers import show

    return show(arguments)


if __name__ == "__main__":
    run_command(main, resumes=False)
