"""Write stored rollouts for other programs.

The trl formats are conversational; groups without a training signal are left out of them.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from engine.api_manager import GENERATORS
from engine.errors import InputError
from grpo_training.cli.entry import CommandParser, run_command
from grpo_training.export.formats import FORMATS


def export_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line of ``export``.

    Raises:
        InputError: CACHE and ``--run`` are both given.
    """
    parser = CommandParser(
        prog="python -m grpo_training.export",
        usage="%(prog)s [CACHE] --to FORMAT --output FILE ...",
        description=__doc__,
        epilog="formats:\n" + "\n".join(f"  {name:12}  {text}" for name, text in FORMATS.items()),
    )
    parser.add_argument("cache", type=Path, nargs="?", metavar="CACHE",
                        help="cache folder (default: that of the run)")  # fmt: skip
    parser.add_argument("--run", metavar="NAME", help="name of the run, in place of CACHE (default: the newest)")
    parser.add_argument("--to", choices=FORMATS, required=True, metavar="FORMAT", help="one of the formats below")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE",
                        help="a .jsonl file")  # fmt: skip
    parser.add_argument("--prompts", metavar="STYLE",
                        help="style of the prompts; others are built anew (default: as sent)")  # fmt: skip
    parser.add_argument("--strip-experiences", action="store_true", help="write the prompts without experiences")
    parser.add_argument("--min-reward", type=float, default=0.5, metavar="X",
                        help="trl-sft: least reward of a reply (default: %(default)s)")  # fmt: skip
    parser.add_argument("--role", choices=GENERATORS, help="rollouts: only this generator")
    arguments = parser.parse_args(argv)
    if arguments.run is not None and arguments.cache is not None:
        raise InputError(
            f"{arguments.cache} and --run {arguments.run} exclude each other", fix="Leave one of them out."
        )
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    arguments = export_arguments(argv)
    from grpo_training.runs.folder import found_run

    if arguments.cache is None:
        arguments.cache = found_run(arguments.run).cache
    from grpo_training.export.rollouts import export

    return export(arguments)


if __name__ == "__main__":
    run_command(main, resumes=False)
