"""The effect of an experience, from the rollouts or fusions of a cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.experience.effect import Effect, Use, effect_of
from engine.records import Fusion, Rollout
from engine.storage.rollout_store import latest_fusions, read
from engine.storage.stored_records import StoredGroups
from grpo_training.runs.learner_files import results_file


def effect(cache_dir: Path, library: str, experience_id: str) -> Effect:
    """The figures of an experience. Rollouts that were not judged are left out."""
    return effect_of(
        Use(problem_id, experience_id in answer.experience_ids, answer.is_correct)
        for problem_id, answer in _answers(results_file(cache_dir, library), is_critic=library == "critic")
        if answer.is_correct is not None
    )


def _answers(path: Path, *, is_critic: bool) -> Iterator[tuple[str, Rollout | Fusion]]:
    """The answers of a file, each with the id of its problem."""
    if is_critic:
        for fusion in latest_fusions(read(path, Fusion, missing_ok=True).records).values():
            yield fusion.problem_id, fusion
        return
    for group in StoredGroups(path).values():
        yield from ((group.problem_id, rollout) for rollout in group.rollouts)
