"""Log-probs of sequences, and beam search."""
# ruff: noqa: N803, N806, N815 - names end in their shape

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from engine.errors import InputError
from grpo_training.selector.model.pointer import DecodingState, Encoded, PointerSelector


class Sequences(NamedTuple):
    """Sequences of each query, the best first.

    ``places_BNS`` are positions in the pool. ``logps_BN`` is the log-prob of the whole sequence at temperature 1; -inf
    marks a sequence that does not exist.
    """

    places_BNS: Tensor
    logps_BN: Tensor


def sequence_logps_at(
    model: PointerSelector, encoded: Encoded, labels_BNS: Tensor, temperatures: tuple[float, ...]
) -> Tensor:
    """Log-probs (T, B, N, S) of the steps of given sequences under ``softmax(logits / temperature)``.

    Args:
        model: the network.
        encoded: the queries with their pools.
        labels_BNS: places in the pool; padded steps may hold any place.
        temperatures: T of them, each above 0.
    """
    state = model.begin(encoded, labels_BNS.shape[1])
    steps = []
    for number in range(labels_BNS.shape[2]):
        label_BN = labels_BNS[:, :, number]
        logits_BNK = model.logits(encoded, state)
        chosen_TBN = [
            (logits_BNK / temperature).log_softmax(-1).gather(-1, label_BN.unsqueeze(-1)).squeeze(-1)
            for temperature in temperatures
        ]
        steps.append(torch.stack(chosen_TBN))
        state = model.step(encoded, state, label_BN)
    return torch.stack(steps, 3)


@torch.no_grad()  # type: ignore[untyped-decorator]
def beam_search(model: PointerSelector, encoded: Encoded, steps: int, beam_size: int) -> Sequences:
    """The ``beam_size`` most probable sequences that a beam of that width finds, the best first.

    Raises:
        InputError: a pool has fewer places than steps.
    """
    smallest = int(encoded.mask_BK.sum(1).min())
    if not 0 < steps <= smallest:
        raise InputError(f"{steps} steps are not possible: the smallest pool has {smallest} places")
    places = encoded.mask_BK.shape[1]
    state = model.begin(encoded, 1)
    batch = len(encoded.mask_BK)
    total_BN = torch.zeros(batch, 1, device=encoded.mask_BK.device)
    chosen_BNS = torch.zeros(batch, 1, 0, dtype=torch.long, device=encoded.mask_BK.device)
    for _ in range(steps):
        logits_BNK = model.logits(encoded, state)
        logps_BNK = logits_BNK.log_softmax(-1).masked_fill(state.used_BNK, -torch.inf)
        scores = (total_BN.unsqueeze(-1) + logps_BNK).flatten(1)
        total_BN, best_BN = scores.topk(min(beam_size, scores.shape[1]), dim=1)
        parent_BN, place_BN = best_BN // places, best_BN % places
        state = model.step(encoded, _of_parents(state, parent_BN), place_BN)
        history = chosen_BNS.gather(1, parent_BN.unsqueeze(-1).expand(-1, -1, chosen_BNS.shape[2]))
        chosen_BNS = torch.cat([history, place_BN.unsqueeze(-1)], 2)
    return Sequences(chosen_BNS, total_BN)


def _of_parents(state: DecodingState, parent_BN: Tensor) -> DecodingState:
    index = parent_BN.unsqueeze(-1)
    return DecodingState(
        state.state_BNH.gather(1, index.expand(-1, -1, state.state_BNH.shape[-1])),
        state.used_BNK.gather(1, index.expand(-1, -1, state.used_BNK.shape[-1])),
    )
