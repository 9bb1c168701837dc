"""The command lines of ``show`` and ``export``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from engine.api_manager import LEARNERS
from grpo_training.cli.entry import CommandParser

if TYPE_CHECKING:
    from collections.abc import Sequence


def show_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line of ``show``: ``cache``, ``problem_id``, ``role``, ``epoch``, ``chars`` and ``json``."""
    parser = CommandParser(
        prog="python -m grpo_training.show",
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
