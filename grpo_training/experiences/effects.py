"""The effect of experiences, from the rollouts or fusions of a cache."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from engine.experience.effect import Effect, Use, effect_of
from engine.records import Fusion
from engine.storage.rollout_store import latest_fusions, read
from engine.storage.stored_records import StoredGroups
from grpo_training.runs.learner_files import results_file


def effects(cache_dir: Path, library: str, ids: Collection[str]) -> dict[str, Effect]:
    """Experience id -> its figures. Rollouts that were not judged are left out."""
    answers = list(_answers(cache_dir, library))
    return {
        one: effect_of(Use(problem, one in present, is_correct) for problem, present, is_correct in answers)
        for one in ids
    }


def _answers(cache_dir: Path, library: str) -> Iterator[tuple[str, frozenset[str], bool]]:
    """Of each judged answer the problem, the experiences in its prompt, and whether it is right."""
    if library == "critic":
        stored = read(results_file(cache_dir, library), Fusion, missing_ok=True).records
        for fusion in latest_fusions(stored).values():
            if fusion.is_correct is not None:
                yield fusion.problem_id, frozenset(fusion.experience_ids), fusion.is_correct
        return
    for group in StoredGroups(results_file(cache_dir, library)).values():
        for rollout in group.rollouts:
            if rollout.is_correct is not None:
                yield group.problem_id, frozenset(rollout.experience_ids), rollout.is_correct
