"""Writes a task and its problems as an environment of another program."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import jinja2

from engine.datasets import load_problems
from engine.errors import InputError
from engine.storage.append_log import replace_file
from engine.storage.folders import replace_folder
from engine.storage.installation import DISTRIBUTION
from engine.tasks.registry import load_task
from grpo_training.environments.problem_files import PROBLEMS, write_problems

_TEMPLATES = Path(__file__).parent / "templates"
_FILES = {
    "verifiers": {
        "pyproject.toml": "verifiers_pyproject.toml.j2",
        "README.md": "verifiers_readme.md.j2",
        "{module}/__init__.py": "verifiers_package.py.j2",
    },
    "inspect-task": {"{module}.py": "inspect_task.py.j2"},
}
"""Format -> file -> template. The problems are beside the Python file."""


def export_environment(arguments: argparse.Namespace) -> int:
    """Write the environment of ``--dataset`` into the folder ``--output``; the exit code.

    Raises:
        MissingInputError, InputError: the dataset or the task cannot be read, or the folder is in use.
        TemplateError: there is no such prompt style.
    """
    output: Path = arguments.output
    module = re.sub(r"\W", "_", output.name).lower()
    if not module.isidentifier():
        raise InputError(
            f"--output: {output.name!r} cannot be the name of a Python package", fix="Begin it with a letter."
        )
    place = arguments.task
    task = None if place is None else load_task(place)
    problems = load_problems(arguments.dataset, task=task, max_problems=arguments.max_problems)
    files = _FILES[arguments.to]
    code = Path(next(name for name in files if name.endswith(".py")).format(module=module))
    names = {
        "module": module,
        "name": module.replace("_", "-"),
        "tasks": sorted({problem.task for problem in problems}),
        "problems": len(problems),
        "distribution": DISTRIBUTION,
    }
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701 - no HTML

    def check() -> None:
        if output.exists() and not (output / code.parent / PROBLEMS).is_file():
            raise InputError(f"{output} exists and is no environment", fix="Give a new folder.")

    def write(folder: Path) -> None:
        (folder / code.parent).mkdir(parents=True)
        write_problems(folder / code.parent, problems, arguments.prompts or "full", place)
        for name, template in files.items():
            text = environment.from_string((_TEMPLATES / template).read_text(encoding="utf-8")).render(names)
            replace_file(folder / name.format(module=module), text.encode())

    replace_folder(output, write, check)
    print(f"{len(problems)} problems: {output}")
    return 0
