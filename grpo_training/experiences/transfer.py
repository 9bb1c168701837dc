"""Experiences from the file of another library: checked one by one, then added together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from engine.errors import MissingInputError
from engine.experience.file import addition, parse_library
from engine.experience.library import ExperienceLibrary
from engine.experience.review import DuplicateIndex, check_text
from engine.records import Experience, Problem
from engine.tasks.registry import task_named
from grpo_training.runs.stored_answers import problem_of, stored_answers


class Transfer(NamedTuple):
    """What an import has done: the ids that were given, the texts that were left out with the reason, and how many
    could not be checked for the answer of their problem."""

    added: list[str]
    refused: list[tuple[str, str]]
    unchecked: int


def read_entries(files: Sequence[Path]) -> list[Experience]:
    """The entries of library files, in order.

    Raises:
        MissingInputError: a file does not exist.
        InputError: it is no library, or an entry is not valid; the place is named.
    """
    entries: list[Experience] = []
    for path in files:
        try:
            content = path.read_bytes()
        except (FileNotFoundError, IsADirectoryError):
            raise MissingInputError(f"Library file not found: {path}", fix="Give an *_experiences.json file.") from None
        entries += parse_library(content, path)
    return entries


def add_entries(
    library: ExperienceLibrary, entries: Sequence[Experience], problems: Mapping[str, Problem], note: str
) -> Transfer:
    """Add the entries that a library may have, all in one event. They get new ids: no id is used twice.

    Left out are near-duplicates, near-duplicates of forbidden experiences, and texts that give away the answer of the
    problem that they come from.

    Args:
        library: opened for writing.
        entries: from :func:`read_entries`.
        problems: id -> problem, as far as they are known.
        note: kept in the log.

    Raises:
        InputError: the library has no room for them; nothing was added.
    """
    state = library.state
    kept: list[Experience] = []
    refused: list[tuple[str, str]] = []
    unchecked = 0
    present, forbidden = DuplicateIndex(state.texts), DuplicateIndex(state.forbidden)
    for entry in entries:
        problem = problems.get(entry.source_problem)
        same = present.find(entry.content)
        if same is not None:
            reason = f"near-duplicate of {same.id or 'another entry'}"
        elif banned := forbidden.find(entry.content):
            reason = f"forbidden, as {banned.id}"
        elif problem and (fault := check_text(entry.content, problem, task_named(problem.task).leaks_answer)):
            reason = fault.message
        else:
            unchecked += problem is None and bool(entry.source_problem)
            kept.append(entry)
            present.add(entry)
            continue
        refused.append((entry.content, reason))
    added: list[str] = []
    if kept:
        operations = [addition(one) for one in kept]
        before = {one.id for one in state.experiences}
        added = [one.id for one in library.edit(operations, note).experiences if one.id not in before]
    return Transfer(added, refused, unchecked)


def known_problems(cache_dir: Path) -> dict[str, Problem]:
    """The problems that a cache holds, by id; none if there is no cache."""
    try:
        records = [record for stored in stored_answers(cache_dir) for record in stored.records]
    except MissingInputError:
        return {}
    return {one.problem_id: problem_of(one) for one in records}
