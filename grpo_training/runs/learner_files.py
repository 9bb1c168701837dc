"""The files of a learner, which is a generator or the critic, by its name."""

from __future__ import annotations

import re
from pathlib import Path

_RESULTS = re.compile(r"(.+(?=_rollouts)|critic(?=_results))_(?:rollouts|results)\.jsonl(\.old\d+)?")
_LIBRARY = re.compile(r"(.+)_experiences\.json")


def results_file(cache: Path, learner: str) -> Path:
    """The rollouts of a generator, or the fusions of the critic."""
    return cache / ("critic_results.jsonl" if learner == "critic" else f"{learner}_rollouts.jsonl")


def manifest_file(cache: Path, learner: str, old: str = "") -> Path:
    """The manifest of its results; ``old`` is the ending of those that ``--fresh`` has set aside."""
    return cache / f"{learner}_run.json{old}"


def library_file(experiences: Path, learner: str) -> Path:
    """Its library."""
    return experiences / f"{learner}_experiences.json"


def learner_of_results(path: Path) -> tuple[str, str] | None:
    """Learner and ending (``.old1``, else empty) of a file of results; None for any other file."""
    found = _RESULTS.fullmatch(path.name)
    return None if found is None else (found[1], found[2] or "")


def learner_of_library(path: Path) -> str | None:
    """The learner of a library; None for any other file."""
    found = _LIBRARY.fullmatch(path.name)
    return None if found is None else found[1]
