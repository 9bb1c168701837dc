"""Browse and edit experience libraries.

Each agent keeps a library of experiences: advice of at most 32 words that is part of its later prompts.
This command shows what was learned and from which evidence, and it pins and removes experiences.

commands:
  list       show the libraries (the default), cut to the width of the terminal
  show ID    show one experience with its evidence and history
  pin ID     keep it in every prompt; a trial does not retire it
  unpin ID   remove the pin
  remove ID  delete it
  forbid ID  delete it; the analyst cannot add it again

examples, each after python -m grpo_training.experiences:
  --search units
  show g1-003
  pin G1-003 --run mails

Texts are changed and added in the JSON files, with a text editor: what a file says is the library.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from grpo_training.cli.entry import CommandParser, run_command

_COMMANDS = ("list", "show", "pin", "unpin", "remove", "forbid")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    arguments = _parse(argv)
    from grpo_training.experiences.commands import run_subcommand

    return run_subcommand(arguments)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line: ``command``, ``id``, ``library``, ``search`` and the places of the libraries."""
    parser = CommandParser(prog="python -m grpo_training.experiences", description=__doc__)
    parser.add_argument("command", nargs="?", choices=_COMMANDS, default="list", metavar="COMMAND",
                        help="one of the commands above")  # fmt: skip
    parser.add_argument("id", nargs="?", type=str.upper, metavar="ID", help="an experience, such as G1-003")
    parser.add_argument("--search", metavar="TEXT", help="list only experiences with this text, in any case")
    parser.add_argument("--library", metavar="NAME", help="generator_1, generator_2, generator_3 or critic")
    parser.add_argument("--run", metavar="NAME", help="name of the run (default: the newest)")
    parser.add_argument("--experiences-dir", type=Path, metavar="DIR", help="folder of libraries without a run")
    parser.add_argument("--cache-dir", type=Path, metavar="DIR", help="cache of libraries without a run")
    arguments = parser.parse_args(argv)
    if arguments.command == "list" and arguments.id is not None:
        parser.error(f"unrecognized arguments: {arguments.id}")
    if arguments.command != "list" and arguments.id is None:
        parser.error(f"{arguments.command} needs the ID of an experience, such as G1-003")
    return arguments


if __name__ == "__main__":
    run_command(main, resumes=False)
