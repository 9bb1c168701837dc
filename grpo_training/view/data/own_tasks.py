"""Tasks of the user's own that runs were made with, loaded without ``--task``."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from engine.errors import ScaffoldError
from engine.reading.python_syntax import parse
from engine.tasks.registry import load_task
from grpo_training.cli.settings import WORKING_DIR


def load_task_of(settings: dict[str, object], results: Iterable[Path]) -> None:
    """Load the task ``FILE.py:NAME`` that the settings of a run name, if the file is the user's own.

    Loading a task runs its file. Results may come from another machine, so that a manifest alone must not decide what
    is run: the file has to be below the working folder and outside the folders of results, to import from ``engine``,
    and to assign NAME. A task that is not loaded here, or cannot be, is unknown to the pages, which say so.

    Args:
        settings: of the run.
        results: the folders that are searched for runs.
    """
    place = settings.get("task")
    source, _, name = place.rpartition(":") if isinstance(place, str) else ("", "", "")
    if not source.endswith(".py") or not name or "\0" in source:
        return
    path = (WORKING_DIR / source).resolve()
    if not path.is_relative_to(WORKING_DIR.resolve()) or any(path.is_relative_to(one.resolve()) for one in results):
        return
    if not _is_of_task(path, name):
        return
    try:
        load_task(f"{path}:{name}")
    except ScaffoldError:
        return


def _is_of_task(path: Path, name: str) -> bool:
    """Whether a file imports from ``engine`` and assigns a name; another script of the user's is not to be run."""
    try:
        body = parse(path.read_text(encoding="utf-8")).body
    except (OSError, ValueError):
        return False
    imported = {one.module or "" for one in body if isinstance(one, ast.ImportFrom)}
    imported |= {alias.name for one in body if isinstance(one, ast.Import) for alias in one.names}
    targets = [target for one in body if isinstance(one, ast.Assign) for target in one.targets]
    targets += [one.target for one in body if isinstance(one, ast.AnnAssign)]
    assigned = {target.id for target in targets if isinstance(target, ast.Name)}
    return name in assigned and any(module.partition(".")[0] == "engine" for module in imported)
