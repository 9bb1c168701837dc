"""The groups and fusions of a cache folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from engine.api_manager import GENERATORS
from engine.errors import MissingInputError
from engine.records import Fusion, Problem, RolloutGroup
from engine.storage.stored_records import StoredFusions, StoredGroups
from engine.tasks.registry import DEFAULT_TASK
from grpo_training.runs.learner_files import results_file
from grpo_training.runs.scored_groups import SCORED, scored_groups


class StoredAnswers(NamedTuple):
    """What one role has stored about one problem in one epoch: a group of rollouts, or the critic's fusions."""

    role: str
    problem_id: str
    epoch: int
    records: tuple[RolloutGroup | Fusion, ...]


def stored_answers(cache_dir: Path, role: str | None = None) -> Iterator[StoredAnswers]:
    """Everything that is stored, by role, in problem order; of repeated groups the last one. Read one at a time.

    Args:
        cache_dir: a cache folder, or a file of ``score_rollouts``, whose groups have the role ``scored``.
        role: only this one.

    Raises:
        MissingInputError: no role has stored anything there.
        InputError: a file that holds something else.
    """
    if cache_dir.is_file():
        for group in scored_groups(cache_dir):
            yield StoredAnswers(SCORED, group.problem_id, group.epoch, (group,))
        return
    roles = [name for name in (*GENERATORS, "critic") if role in (None, name)]
    files = {name: results_file(cache_dir, name) for name in roles}
    if not any(path.is_file() for path in files.values()):
        raise MissingInputError(
            f"No results in {cache_dir}",
            why=f"None of these files is there: {', '.join(path.name for path in files.values())}.",
            fix="Give the cache folder of a run (--cache-dir of the generators), such as grpo_training/cache.",
        )
    for name, path in files.items():
        if name == "critic":
            fusions = StoredFusions(path, with_incomplete=True)
            members: dict[tuple[str, int], list[tuple[str, int, str]]] = {}
            for member in fusions:
                members.setdefault(member[:2], []).append(member)
            for (problem_id, epoch), ones in members.items():
                found = tuple(fusion for one in ones if (fusion := fusions.get(one)) is not None)
                yield StoredAnswers(name, problem_id, epoch, found)
        else:
            for group in StoredGroups(path, with_incomplete=True).in_order():
                yield StoredAnswers(name, group.problem_id, group.epoch, (group,))


def problem_of(record: RolloutGroup | Fusion) -> Problem:
    """The problem that a record answers."""
    return Problem(
        id=record.problem_id, text=record.problem_text, answer=record.ground_truth, task=record.task or DEFAULT_TASK
    )
