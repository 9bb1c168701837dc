"""The command lines of ``show`` and ``export``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from engine.api_manager import GENERATORS, LEARNERS
from engine.errors import InputError
from grpo_training.cli.entry import CommandParser, LinesFormatter
from grpo_training.cli.settings import WORKING_DIR

if TYPE_CHECKING:
    from collections.abc import Sequence


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


FORMATS = {
    "trl-sft": "prompt and completion of the good replies, for SFTTrainer",
    "trl-dpo": "prompt with the best and the worst reply of each group, for DPOTrainer",
    "trl-kto": "prompt, completion and whether it is above its group's mean, for KTOTrainer",
    "trl-grpo": "prompts with replies and rewards as further columns, for GRPOTrainer",
    "hf-dataset": "one row per rollout with all figures: a folder for datasets.load_from_disk",
    "inspect": "an eval log for inspect_ai: `inspect view`",
}
"""Format of stored rollouts -> what it is."""

ENVIRONMENTS = {
    "verifiers": "an installable environment of a task's problems, prompts and reward, for verifiers and prime-rl",
    "inspect-task": "a task file with the same for inspect_ai: `inspect eval`",
}
"""Format of a dataset and its task -> what it is. No rollouts are needed."""


def export_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line of ``export``.

    Raises:
        InputError: the format needs a cache or a dataset, and there is none.
    """
    formats = {**FORMATS, **ENVIRONMENTS}
    parser = CommandParser(
        prog="python -m grpo_training.export",
        usage="%(prog)s [CACHE] --to FORMAT --output FILE ...",
        description="Write stored rollouts, or a dataset with its task, for other programs. The trl formats are "
        "conversational; groups without a training signal are left out of them.",
        epilog="formats:\n" + "\n".join(f"  {name:12}  {text}" for name, text in formats.items()),
        formatter_class=LinesFormatter,
    )
    parser.add_argument("cache", type=Path, nargs="?", metavar="CACHE",
                        help="cache folder, such as grpo_training/cache")  # fmt: skip
    parser.add_argument("--to", choices=formats, required=True, metavar="FORMAT", help="one of the formats below")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE",
                        help="trl: .jsonl or .parquet; inspect: .json or a folder; else a folder")  # fmt: skip
    parser.add_argument("--prompts", default="full", help="style that the prompts were sent in (default: %(default)s)")
    parser.add_argument("--experiences-dir", type=Path, default=WORKING_DIR / "data/grpo_experiences", metavar="DIR",
                        help="libraries of the prompts' experiences (default: data/grpo_experiences)")  # fmt: skip
    parser.add_argument("--strip-experiences", action="store_true", help="write the prompts without experiences")
    parser.add_argument("--min-reward", type=float, default=0.5, metavar="X",
                        help="trl-sft: least reward of a reply (default: %(default)s)")  # fmt: skip
    parser.add_argument("--role", choices=GENERATORS, help="hf-dataset, inspect: only this generator")
    group = parser.add_argument_group("environments")
    group.add_argument("--dataset", metavar="NAME", help="the problems, as in the generators")
    group.add_argument("--task", metavar="NAME", help="their task, as in the generators: path/to/file.py:TASK")
    group.add_argument("--max-problems", type=int, metavar="N", help="only the first N problems")
    arguments = parser.parse_args(argv)
    needed = "dataset" if arguments.to in ENVIRONMENTS else "cache"
    if getattr(arguments, needed) is None:
        flag = "--dataset NAME" if needed == "dataset" else "CACHE"
        raise InputError(
            f"--to {arguments.to} needs {flag}", fix=f"python -m grpo_training.export --help shows {flag}."
        )
    return arguments
