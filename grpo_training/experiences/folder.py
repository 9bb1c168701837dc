"""The libraries of a directory, by name or by experience id."""

from __future__ import annotations

import sys
from pathlib import Path

from engine.errors import InputError, MissingInputError
from engine.experience.choice import LearnedExperiences
from engine.experience.library import ExperienceLibrary, library_prefix
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


class LibraryFolder:
    """The libraries of one directory.

    Args:
        directory: for example ``data/grpo_experiences``.
        only: use only the library of this name; None: all.
    """

    def __init__(self, directory: Path, only: str | None) -> None:
        self._directory, self._only = directory, only

    def names(self) -> list[str]:
        """The names of the libraries, such as ``generator_1``.

        Raises:
            InputError: the library that was asked for does not exist.
            MissingInputError: there are none.
        """
        files = self._directory.glob("*_experiences.*") if self._directory.is_dir() else ()
        known = [name for name in sorted({path.name.split("_experiences.")[0] for path in files}) if _is_name(name)]
        if self._only is not None:
            library_prefix(self._only)
        if not known:
            runs = ", ".join(run.name for run in known_runs() if run.name)
            raise MissingInputError(
                f"No library of experiences in {shown_path(self._directory)}",
                why="Files named *_experiences.json were looked for. A generator or the critic writes one when it has "
                "extracted an experience.",
                fix=f"Name a run with --run NAME: {runs}. --experiences-dir names another folder."
                if runs
                else "Run python -m grpo_training.generator1 first, start the command in the folder that has the runs, "
                "or pass --experiences-dir DIR.",
            )
        if self._only is not None:
            if self._only not in known:
                raise InputError(
                    f"No library of {self._only} in {self._directory}",
                    fix=f"Existing libraries: {', '.join(known)}.",
                )
            return [self._only]
        return known

    def open(self, name: str, *, read_only: bool = True) -> ExperienceLibrary:
        """Open a library; notices about edited files are printed to stderr."""
        return open_library(library_file(self._directory, name), read_only=read_only)

    def with_experience(self, experience_id: str, *, deleted_too: bool) -> str:
        """The name of the library that has an experience, or ever had it with ``deleted_too``.

        Raises:
            InputError: none or several have it.
        """

        def has(library: ExperienceLibrary) -> bool:
            before = (entry.after for entry in library.history()) if deleted_too else ()
            return any(state.get(experience_id) for state in (library.state, *before))

        names = self.names()
        having = [name for name in names if has(self.open(name))]
        if len(having) == 1:
            return having[0]
        if having:
            raise InputError(
                f"{experience_id} is in {', '.join(having)}", fix=f"Choose one, such as --library {having[0]}."
            )
        raise InputError(f"{experience_id} is not in {', '.join(names)}", fix="`list` shows ids.")


def _is_name(name: str) -> bool:
    try:
        library_prefix(name)
    except InputError:
        return False
    return True
