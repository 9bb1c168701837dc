"""Choosing shots with a trained selector."""

from __future__ import annotations

import math
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
    chosen = []
    device = str(next(model.parameters()).device)
    for start in range(0, len(groups), _BATCH):
        together = groups[start : start + _BATCH]
        batch = make_batch(together, table, device=device)
        with torch.no_grad():
            encoded = model.encode(batch.query_BD, batch.pool_BKD, batch.pool_mask_BK)
        best = beam_search(model, encoded, min(shots, *(len(group.pool) for group in together)), beam_size)
        for group, sequences, logps in zip(together, best.places_BNS.tolist(), best.logps_BN.tolist(), strict=True):
            ranked = zip(sequences, logps, strict=True)
            chosen.append(
                [([group.pool[place] for place in places], logp) for places, logp in ranked if logp > -math.inf]
            )
    return chosen
