"""The libraries of a folder, by name or by experience id."""

from __future__ import annotations

import sys
from pathlib import Path

from engine.errors import InputError, MissingInputError
from engine.experience.choice import LearnedExperiences
from engine.experience.library import OF_OTHERS, ExperienceLibrary, library_prefix
from grpo_training.cli.settings import shown_path
from grpo_training.cli.terminal_text import say
from grpo_training.runs.folder import known_runs, library_file


def open_library(path: Path, *, read_only: bool = True) -> ExperienceLibrary:
    """Open a library; notices about edited files are printed to stderr."""
    library = ExperienceLibrary(path, read_only=read_only)
    for notice in library.notices:
        say(notice, sys.stderr)
    return library


def learned_experiences(path: Path | None) -> LearnedExperiences | None:
    """The experiences of a library as they are used after learning; None without a path.

    Raises:
        MissingInputError: there is no such file.
    """
    if path is None:
        return None
    if not path.is_file():
        raise MissingInputError(f"No library at {path}", fix="Give a file such as generator_1_experiences.json.")
    return LearnedExperiences(open_library(path).state)


def libraries_in(folder: Path, only: str | None) -> dict[str, ExperienceLibrary]:
    """The libraries of a folder by name, such as ``generator_1``; opened read-only.

    Args:
        folder: for example ``data/grpo_experiences``.
        only: use only the library of this name; None: all.

    Raises:
        InputError: the library that was asked for does not exist.
        MissingInputError: there are none.
    """
    names = sorted({path.name.split("_experiences.")[0] for path in folder.glob("*_experiences.*")})
    names = [name for name in names if library_prefix(name) != OF_OTHERS]
    if not names:
        runs = ", ".join(run.name for run in known_runs() if run.name)
        raise MissingInputError(
            f"No library of experiences in {shown_path(folder)}",
            why="Files named *_experiences.json were looked for. A generator or the critic writes one when it has "
            "extracted an experience.",
            fix=f"Name a run with --run NAME: {runs}. --experiences-dir names another folder."
            if runs
            else "Run python -m grpo_training.generator1 first, start the command in the folder that has the runs, "
            "or pass --experiences-dir DIR.",
        )
    if only is not None and only not in names:
        raise InputError(f"No library of {only} in {folder}", fix=f"Existing libraries: {', '.join(names)}.")
    return {name: open_library(library_file(folder, name)) for name in names if only in (None, name)}


def library_with(experience_id: str, libraries: dict[str, ExperienceLibrary]) -> str:
    """The name of the library that has an experience, or had it.

    Raises:
        InputError: none or several have it.
    """
    having = [
        name
        for name, library in libraries.items()
        if library.state.get(experience_id) or any(entry.after.get(experience_id) for entry in library.history())
    ]
    if not having:
        raise InputError(f"{experience_id} is not in {', '.join(libraries)}", fix="`list` shows ids.")
    if len(having) > 1:
        raise InputError(
            f"{experience_id} is in {', '.join(having)}", fix=f"Choose one, such as --library {having[0]}."
        )
    return having[0]
