"""Making a reward file: an endpoint answers queries with candidate sequences of shots, and its answers are scored."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from typing import Any

from engine.errors import InputError
from engine.storage.append_log import write_file
from grpo_training.selector.asking.answers import ask_with_shots, measurements
from grpo_training.selector.choice import choose_shots
from grpo_training.selector.data.beam_file import load_groups
from grpo_training.selector.data.groups import ShotGroup
from grpo_training.selector.data.images import checked_images
from grpo_training.selector.data.items import load_items
from grpo_training.selector.data.prompts import ShotPrompts
from grpo_training.selector.data.sources import load_embeddings
from grpo_training.selector.model.checkpoint import load_model
from grpo_training.selector.settings import RewardsSettings

Candidates = dict[tuple[int, ...], str]
"""Shots of a sequence -> how it was made, the first way that made it."""


def measure_rewards(settings: RewardsSettings) -> int:
    """Ask, score and write the reward file. Returns the exit code. Stored replies are used again.

    Raises:
        ScaffoldError: bad input, or an endpoint that refuses or does not answer.
    """
    manager = settings.load_endpoints()
    endpoint = manager.endpoint(settings.role)
    problems = load_items(settings.dataset)
    images = checked_images(settings, problems, settings.dataset)
    groups = load_groups(settings.beam_data)
    wrong = [shot for group in groups for shot in (group.query, *group.pool) if not 0 <= shot < len(problems)]
    if wrong:
        raise InputError(
            f"{settings.beam_data} has the id {wrong[0]}; {settings.dataset} has {len(problems)} rows",
            fix="Pass the dataset that the beam file was made from.",
        )
    candidates = candidates_of(settings, groups)
    asked = [(group.query, shots) for group, methods in zip(groups, candidates, strict=True) for shots in methods]
    print(f"{len(groups)} queries, {len(asked)} sequences", flush=True)
    replies = iter(asyncio.run(ask_with_shots(settings, manager, ShotPrompts(problems, images), asked)))
    entries: dict[str, Any] = {"_meta": {"vqa_model": endpoint.model, "dataset": settings.dataset}}
    with_spread = 0
    for group, methods in zip(groups, candidates, strict=True):
        problem = problems[group.query]
        measured = [
            {"pointer": [group.pool.index(shot) for shot in shots], "pointer_global": list(shots), "gen_method": method}
            | measurements(problem, next(replies))
            for shots, method in methods.items()
        ]
        with_spread += len({candidate["vqa_acc_score"] for candidate in measured}) > 1
        entries[str(group.query)] = {
            "query": {"query_id": group.query, "question_id": problem.id, "question": problem.text},
            "candidate_pool_ids": list(group.pool),
            "pointer_candidates": measured,
        }
    write_file(settings.output, json.dumps(entries, ensure_ascii=False).encode() + b"\n")
    print(f"queries whose sequences differ in accuracy: {with_spread} of {len(groups)}: {settings.output}")
    return 0


def candidates_of(settings: RewardsSettings, groups: Sequence[ShotGroup]) -> list[Candidates]:
    """The candidate sequences of each query: the best of the checkpoint, those of the file, and some by chance."""
    usual = max(len(sequence.shots) for group in groups for sequence in group.sequences)
    candidates: list[Candidates] = [{} for _ in groups]
    if settings.checkpoint is not None:
        model, info = load_model(settings.checkpoint)
        table = load_embeddings(info.embeddings)
        for methods, chosen in zip(
            candidates, choose_shots(model, groups, table, info.shots, settings.beams), strict=True
        ):
            methods |= {tuple(shots): "selector" for shots, _ in chosen}
    for methods, group in zip(candidates, groups, strict=True):
        for sequence in group.sequences[: settings.beams]:
            methods.setdefault(sequence.shots, "beam")
        rng = random.Random(f"{settings.seed}:{group.query}")  # noqa: S311 - not for cryptography
        for _ in range(settings.random):
            methods.setdefault(tuple(rng.sample(group.pool, min(usual, len(group.pool)))), "random")
    return candidates
