"""Trials of experiences as training data: halves of groups, whose prompts had some of the matching experiences by lot.

A query is a problem. Its pool are the experiences that were on trial in its groups. A sequence are the experiences of a
half (the others of the pool were out), and its reward is the mean reward of the half's rollouts.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import InputError, MissingInputError
from engine.storage.stored_records import StoredGroups
from grpo_training.runs.learner_files import results_file
from grpo_training.selector.data.embeddings import EmbeddingTable, TextEmbedder
from grpo_training.selector.data.groups import ScoredSequence, ShotGroup
from grpo_training.selector.experiences import experience_text, in_order, texts_of_library


@dataclass(frozen=True)
class TrialData:
    """Trials of a role.

    Args:
        groups: a problem each; ids are rows of the table.
        table: embeddings of the experiences, then of the problems.
        digest: identifies groups and embeddings.
        left_out: problems without two halves that can be compared.
    """

    groups: list[ShotGroup]
    table: EmbeddingTable
    digest: str
    left_out: int


def trial_data(cache_dir: Path, experiences_dir: Path, role: str, embedder: TextEmbedder) -> TrialData:
    """Read the trials of a role's rollouts.

    Args:
        cache_dir: folder of the rollouts.
        experiences_dir: folder of the libraries, for the texts of the experiences.
        role: such as ``generator_1``.
        embedder: of problems and experiences.

    Raises:
        MissingInputError: the role has no rollouts.
        InputError: no group has two halves with experiences that the library knows.
    """
    path = results_file(cache_dir, role)
    if not path.exists():
        raise MissingInputError(
            f"Rollouts file not found: {path}", fix="Run that role first, or pass another --trials."
        )
    known, _ = texts_of_library(experiences_dir, role)
    place = {name: number for number, name in enumerate(known)}
    rewards: dict[str, dict[tuple[str, ...], list[float]]] = {}
    texts: dict[str, str] = {}
    for group in in_order(StoredGroups(path, with_incomplete=True)):
        for rollout in group.rollouts:
            if rollout.prompt_half is None or not rollout.outcome.carries_reward or rollout.r_total is None:
                continue
            ids = tuple(rollout.experience_ids)
            if ids and place.keys() >= set(ids):
                texts[group.problem_id] = group.problem_text
                rewards.setdefault(group.problem_id, {}).setdefault(ids, []).append(rollout.r_total)
    compared = {problem: found for problem, found in rewards.items() if len(found) > 1}
    if not compared:
        raise InputError(
            f"{path} has no trials of experiences",
            why="No problem has rollouts with two different sets of experiences that the library knows.",
            fix="Run the generator with --learn trial and a library.",
        )
    groups = []
    for number, found in enumerate(compared.values(), len(known)):
        pool = tuple(sorted({place[name] for ids in found for name in ids}))
        sequences = [
            ScoredSequence(tuple(place[name] for name in ids), statistics.fmean(values))
            for ids, values in found.items()
        ]
        groups.append(ShotGroup(number, pool, tuple(sorted(sequences, key=lambda one: -one.reward))))
    items = [*(experience_text(one) for one in known.values()), *(texts[problem] for problem in compared)]
    return TrialData(
        groups, EmbeddingTable(embedder.embed(items)), _digest(items, embedder.name, groups), len(rewards) - len(groups)
    )


def _digest(items: Sequence[str], embedder: str, groups: Sequence[ShotGroup]) -> str:
    content = [items, embedder, [[one.query, [[s.shots, s.reward] for s in one.sequences]] for one in groups]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
