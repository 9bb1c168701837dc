"""Pages that show runs in a browser, while they go on and after.

They show rewards, groups and their rollouts, experiences, fusions and trainings. Files are only read.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from grpo_training.cli.entry import CommandParser
from grpo_training.cli.settings import WORKING_DIR

DEFAULT_FOLDERS = tuple(
    WORKING_DIR / name for name in ("runs", "grpo_training/cache", "data/grpo_experiences", "outputs")
)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = CommandParser(prog="python -m grpo_training.view", description=__doc__)
    parser.add_argument(
        "folders",
        nargs="*",
        type=lambda text: Path(text).expanduser(),
        metavar="FOLDER",
        help="folder with runs, libraries or trainings, searched with its subfolders, or a file of score_rollouts "
        "(default: runs, grpo_training/cache, data/grpo_experiences and outputs)",
    )
    parser.add_argument("--run", metavar="NAME", help="only the run of this name")
    parser.add_argument(
        "--task",
        action="append",
        default=[],
        metavar="PLACE",
        help="a task of your own, FILE.py:NAME or MODULE:NAME, that runs were made with; may be repeated",
    )
    server = parser.add_argument_group("server")
    server.add_argument("--port", type=int, default=7860, metavar="N", help="port; 0: any free one (default: 7860)")
    export = parser.add_argument_group("export")
    export.add_argument(
        "--export",
        type=Path,
        metavar="FILE.html",
        help="write the pages to one new file, and exit",
    )
    export.add_argument(
        "--export-groups",
        type=int,
        default=500,
        metavar="N",
        help="groups of each run that get a page: those with the largest sigma, and the newest (default: 500)",
    )
    return parser.parse_args(argv)
