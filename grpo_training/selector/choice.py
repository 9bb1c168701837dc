"""Choosing shots with a trained selector."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from grpo_training.selector.data.embeddings import EmbeddingTable
from grpo_training.selector.data.groups import ShotGroup, make_batch
from grpo_training.selector.model.decoding import beam_search
from grpo_training.selector.model.pointer import PointerSelector

_BATCH = 64


def choose_shots(
    model: PointerSelector, groups: Sequence[ShotGroup], table: EmbeddingTable, shots: int, beam_size: int
) -> list[list[tuple[list[int], float]]]:
    """For each query, the ids of the chosen shots with the log-prob of the sequence; the best first.

    A pool that has fewer shots than asked for gives sequences of all of them.
    """
    found = []
    device = str(next(model.parameters()).device)
    for start in range(0, len(groups), _BATCH):
        part = groups[start : start + _BATCH]
        batch = make_batch(part, table, device=device)
        with torch.no_grad():
            encoded = model.encode(batch.query_BD, batch.pool_BKD, batch.pool_mask_BK)
        steps = min(shots, *(len(group.pool) for group in part))
        best = beam_search(model, encoded, steps, beam_size)
        for row, group in enumerate(part):
            sequences = []
            for places, length, logp in zip(
                best.places_BNS[row].tolist(), best.length_BN[row].tolist(), best.logps_BN[row].tolist(), strict=True
            ):
                if logp > -float("inf"):
                    sequences.append(([group.pool[place] for place in places[:length]], logp))
            found.append(sequences)
    return found
