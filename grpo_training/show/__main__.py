"""Print what is stored about a problem.

That is each rollout with its answer, rewards, experiences and reply, and the critic's fusions.
Without a problem, list the problems.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from engine.api_manager import LEARNERS
from grpo_training.cli.entry import CommandParser, run_command


def show_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line of ``show``: ``cache``, ``problem_id``, ``role``, ``epoch``, ``chars`` and ``json``."""
    parser = CommandParser(
        prog="python -m grpo_training.show",
        usage="%(prog)s [CACHE] [PROBLEM_ID] [options]",
        description=__doc__,
    )
    parser.add_argument("where", nargs="*", metavar="CACHE PROBLEM_ID",
                        help="cache folder or scored file (default: that of the run); id of the problem")  # fmt: skip
    parser.add_argument("--run", metavar="NAME", help="name of the run, in place of CACHE (default: the newest)")
    parser.add_argument("--role", choices=LEARNERS, help="only this generator, or the critic")
    parser.add_argument("--epoch", type=int, help="only this epoch")
    parser.add_argument("--chars", type=int, default=4000, metavar="N",
                        help="most characters of a reply; 0: all (default: %(default)s)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the stored records, one JSON object a line")
    arguments = parser.parse_args(argv)
    where = list(arguments.where)
    is_cache = bool(where) and (len(where) > 1 or Path(where[0]).exists() or "/" in where[0])
    if len(where) > 2 or (is_cache and arguments.run is not None):
        parser.error(f"unrecognized arguments: {where[-1]}")
    arguments.cache = Path(where.pop(0)) if is_cache else None
    arguments.problem_id = where[0] if where else None
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    arguments = show_arguments(argv)
    from grpo_training.runs.folder import found_run

    if arguments.cache is None:
        arguments.cache = found_run(arguments.run).cache
    from grpo_training.show.answers import show

    return show(arguments)


if __name__ == "__main__":
    run_command(main, resumes=False)
