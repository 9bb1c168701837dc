"""Queries with their pools and scored shot sequences, and batches of them as tensors."""
# ruff: noqa: N806, N815 - names end in their shape

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from engine.errors import InputError
from grpo_training.selector.data.embeddings import EmbeddingTable


@dataclass(frozen=True)
class ScoredSequence:
    """A shot sequence with its reward.

    Args:
        shots: ids of the shots, in the order in which they are chosen.
        reward: higher is better.
    """

    shots: tuple[int, ...]
    reward: float


@dataclass(frozen=True)
class ShotGroup:
    """A query with its pool and the scored sequences.

    Args:
        query: id of the query.
        pool: ids of the shots that can be chosen, without repetitions and without the query.
        sequences: of shots of the pool.

    Raises:
        InputError: a sequence has a shot outside the pool, a repeated shot, or no shot.
    """

    query: int
    pool: tuple[int, ...]
    sequences: tuple[ScoredSequence, ...]

    def __post_init__(self) -> None:
        places = set(self.pool)
        if self.query in places:
            raise InputError(f"Query {self.query}: it is in its own pool", why="A query may not be a shot of itself.")
        if len(places) != len(self.pool):
            raise InputError(f"Query {self.query}: its pool names a shot twice")
        for sequence in self.sequences:
            outside = [shot for shot in sequence.shots if shot not in places]
            if outside:
                raise InputError(
                    f"Query {self.query}: shot {outside[0]} is not in its pool of {len(self.pool)}",
                    why="Shots are named by their ids in the dataset, not by positions in the pool.",
                )
            if not sequence.shots or len(set(sequence.shots)) != len(sequence.shots):
                raise InputError(f"Query {self.query}: the sequence {list(sequence.shots)} is empty or repeats a shot")


class Batch(NamedTuple):
    """Groups as padded tensors: B queries, N sequences, S steps, K places."""

    query_BD: Tensor
    pool_BKD: Tensor
    pool_mask_BK: Tensor
    labels_BNS: Tensor
    step_mask_BNS: Tensor
    """True for the steps that exist."""
    rewards_BN: Tensor
    sequence_mask_BN: Tensor
    """True for the sequences that exist."""


def make_batch(
    groups: Sequence[ShotGroup],
    table: EmbeddingTable,
    *,
    device: str = "cpu",
) -> Batch:
    """Pad groups to one size.

    Args:
        groups: at least one.
        table: embeddings of queries and shots.
        device: of the tensors.
    """
    places = max(len(group.pool) for group in groups)
    sequences = max(len(group.sequences) for group in groups)
    steps = max((len(sequence.shots) for group in groups for sequence in group.sequences), default=1)
    size = (len(groups), sequences, steps)
    labels, step_mask = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=bool)
    rewards, sequence_mask = np.zeros(size[:2]), np.zeros(size[:2], dtype=bool)
    pool_mask = np.zeros((len(groups), places), dtype=bool)
    pools = torch.zeros(len(groups), places, table.dimensions)
    rows = table.rows([shot for group in groups for shot in group.pool]).split([len(group.pool) for group in groups])
    for b, group in enumerate(groups):
        pool_mask[b, : len(group.pool)] = True
        pools[b, : len(group.pool)] = rows[b]
        place_of = {shot: place for place, shot in enumerate(group.pool)}
        for n, sequence in enumerate(group.sequences):
            row = [place_of[shot] for shot in sequence.shots]
            labels[b, n, : len(row)] = row
            step_mask[b, n, : len(row)] = True
            rewards[b, n], sequence_mask[b, n] = sequence.reward, True
    queries_BD = table.rows([group.query for group in groups])
    tensors = (queries_BD, pools, *map(torch.from_numpy, (pool_mask, labels, step_mask, rewards, sequence_mask)))
    return Batch(*(tensor.to(device) for tensor in tensors))


def batches(groups: Sequence[ShotGroup], size: int, seed: str) -> Iterator[Sequence[ShotGroup]]:
    """The groups in an order that the seed gives, ``size`` at a time."""
    order = list(groups)
    random.Random(seed).shuffle(order)  # noqa: S311 - not for cryptography
    for start in range(0, len(order), size):
        yield order[start : start + size]


def split_groups(groups: Sequence[ShotGroup], train_ratio: float, seed: int) -> tuple[list[ShotGroup], list[ShotGroup]]:
    """Training and held-out groups, by query; every sequence of a query is on one side."""
    order = sorted(groups, key=lambda group: group.query)
    random.Random(f"split:{seed}").shuffle(order)  # noqa: S311 - not for cryptography
    cut = max(1, round(train_ratio * len(order))) if train_ratio < 1 else len(order)
    return order[:cut], order[cut:]
