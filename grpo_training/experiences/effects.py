"""The effect of an experience, from the rollouts or fusions of a cache."""

from __future__ import annotations

from pathlib import Path

from engine.experience.effect import Effect, Use, effect_of
from grpo_training.runs.stored_answers import answers_in, stored_records


def effect(cache_dir: Path, library: str, experience_id: str) -> Effect:
    """The figures of an experience. Rollouts that were not judged are left out."""
    return effect_of(
        Use(record.problem_id, experience_id in answer.experience_ids, answer.is_correct)
        for record in stored_records(cache_dir, library).in_order()
        for answer in answers_in(record)
        if answer.is_correct is not None
    )
