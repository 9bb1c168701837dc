"""The command line of ``python -m grpo_training.experiences``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from grpo_training.cli.entry import CommandParser, LinesFormatter

_DESCRIPTION = """\
Each agent keeps a library of experiences: advice of at most 32 words that is part of its later prompts.
This command shows what was learned, from which evidence, and what was refused; and it pins and removes experiences.
"""
_EPILOG = """\
examples, each after python -m grpo_training.experiences:
  --search units --sort effect   the list, cut to the width of the terminal
  show g1-003               one experience: evidence, rollouts, uses, history
  history --library critic  what changed, and what was refused and why
  pin G1-003                keep it in every prompt; a trial does not retire it
  remove G1-003             delete it
  forbid G1-003             delete it; the analyst cannot add it again
  export --library generator_1 > block.txt

Texts are changed and added in the JSON files, with a text editor: what a file says is the library.
"""


SORTS = ("effect", "used", "new")
LISTINGS = ("list", "show", "history", "export")


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line: ``command``, its own arguments, ``library``, ``experiences_dir`` and ``cache_dir``."""
    return _parser().parse_args(argv, _defaults())


def _parser() -> CommandParser:
    shared = CommandParser(add_help=False, argument_default=argparse.SUPPRESS)
    shared.add_argument("--library", metavar="NAME", help="generator_1, generator_2, generator_3 or critic")
    shared.add_argument("--run", metavar="NAME", help="name of the run (default: the newest)")
    shared.add_argument("--experiences-dir", type=Path, metavar="DIR", help="folder of libraries without a run")
    shared.add_argument("--cache-dir", type=Path, metavar="DIR", help="cache of libraries without a run")
    parser = CommandParser(
        prog="python -m grpo_training.experiences",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=LinesFormatter,
        parents=[shared],
    )
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print the libraries as JSON")
    _add_selection(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def add_command(name: str, text: str, *arguments: tuple[str, str]) -> None:
        subparser = commands.add_parser(name, help=text, description=text, parents=[shared])
        if name in LISTINGS:
            subparser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
        if name == "list":
            _add_selection(subparser)
        for argument, meaning in arguments:
            subparser.add_argument(argument.lower(), metavar=argument, help=meaning)

    add_command("list", "show the libraries (the default)")
    add_command("show", "show one experience with its evidence and history", ("ID", "for example G1-003"))
    add_command("history", "show every change, and what was refused and why")
    add_command("pin", "keep an experience in every prompt; a trial does not retire it", ("ID", "for example G1-003"))
    add_command("unpin", "remove a pin", ("ID", "for example G1-003"))
    add_command("remove", "delete an experience", ("ID", "for example G1-003"))
    add_command("forbid", "delete an experience; the analyst cannot add it again", ("ID", "for example G1-003"))
    add_command("export", "print the experiences as they appear in a prompt, or with --json as a library file")
    return parser


def _add_selection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("list", argument_default=argparse.SUPPRESS)
    group.add_argument("--search", metavar="TEXT", help="only experiences with this text, in any case")
    group.add_argument("--category", metavar="NAME", help="only those of this category")
    group.add_argument("--sort", choices=SORTS,
                       help="largest measured effect, most rollouts with it, or newest first")  # fmt: skip


def _defaults() -> argparse.Namespace:
    """Set here and not in the parsers: a subparser's default would override a flag given before the command."""
    places = {"run": None, "experiences_dir": None, "cache_dir": None}
    selection = {"search": None, "category": None, "sort": None}
    return argparse.Namespace(command="list", library=None, json=False, **places, **selection)
