"""The groups and fusions of a cache folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from engine.api_manager import LEARNERS
from engine.errors import MissingInputError
from engine.records import Fusion, Problem, Rollout, RolloutGroup
from engine.storage.stored_records import StoredFusions, StoredGroups, StoredRecords
from engine.tasks.registry import DEFAULT_TASK
from grpo_training.runs.folder import learner_of_results, results_file
from grpo_training.runs.scored_file_groups import SCORED, scored_groups

VERDICTS = {True: "right", False: "wrong", None: "not judged"}
"""``is_correct`` in words."""


class StoredAnswers(NamedTuple):
    """What one role has stored about one problem in one epoch: a group of rollouts, or the critic's fusions."""

    role: str
    problem_id: str
    epoch: int
    records: tuple[RolloutGroup | Fusion, ...]


def stored_answers(cache_dir: Path, role: str | None = None) -> Iterator[StoredAnswers]:
    """Everything that is stored, by role, in problem order; of repeated groups the last one. Read one at a time.

    Args:
        cache_dir: a cache folder, the results of one learner in it, or a file of ``score_rollouts``, whose groups have
            the role ``scored``.
        role: only this one.

    Raises:
        MissingInputError: no role has stored anything there.
        InputError: a file that holds something else.
    """
    learner, old = learner_of_results(cache_dir) or ("", "")
    if cache_dir.is_file() and learner in LEARNERS and not old and role in (None, learner):
        cache_dir, role = cache_dir.parent, learner
    if cache_dir.is_file():
        for group in scored_groups(cache_dir):
            yield StoredAnswers(SCORED, group.problem_id, group.epoch, (group,))
        return
    roles = [name for name in LEARNERS if role in (None, name)]
    files = {name: results_file(cache_dir, name) for name in roles}
    if not any(path.is_file() for path in files.values()):
        raise MissingInputError(
            f"No results in {cache_dir}",
            why=f"None of these files is there: {', '.join(path.name for path in files.values())}.",
            fix="Give the cache folder of a run (--cache-dir of the generators), such as grpo_training/cache.",
        )
    for name in roles:
        stored = stored_records(cache_dir, name, with_incomplete=True)
        for (problem_id, epoch), keys in stored.by_problem().items():
            if records := tuple(stored.of_keys(keys)):
                yield StoredAnswers(name, problem_id, epoch, records)


def stored_records(cache_dir: Path, learner: str, *, with_incomplete: bool = False) -> StoredRecords[Any, Any, Any]:
    """The groups of a generator, or the fusions of the critic, by a key that begins with problem and epoch.

    Args:
        cache_dir: the folder; the file of the learner need not be there.
        learner: its name.
        with_incomplete: the last record of a key counts if none is complete.
    """
    kind = StoredFusions if learner == "critic" else StoredGroups
    return kind(results_file(cache_dir, learner), with_incomplete=with_incomplete)


def answers_in(record: RolloutGroup | Fusion) -> list[Rollout] | list[Fusion]:
    """The rollouts of a group; a fusion itself."""
    return [record] if isinstance(record, Fusion) else record.rollouts


def problem_of(record: RolloutGroup | Fusion) -> Problem:
    """The problem that a record answers."""
    return Problem(
        id=record.problem_id, text=record.problem_text, answer=record.ground_truth, task=record.task or DEFAULT_TASK
    )
