"""Log-probs of sequences, sampling and beam search, for every variant of the network."""
# ruff: noqa: N803, N806, N815 - names end in their shape

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from engine.errors import InputError
from grpo_training.selector.model.pointer import DecodingState, Encoded, PointerSelector


class Sequences(NamedTuple):
    """Sequences of each query, the best first.

    ``places_BNS`` are positions in the pool. Steps after a STOP repeat its place; ``length_BN`` counts those before it.
    ``logps_BN`` is the log-prob of the whole sequence at temperature 1; -inf marks a sequence that does not exist.
    """

    places_BNS: Tensor
    logps_BN: Tensor
    length_BN: Tensor


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
    model.check_labels(labels_BNS, encoded)
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
def sample_sequences(
    model: PointerSelector,
    encoded: Encoded,
    steps: int,
    count: int,
    *,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
) -> Sequences:
    """Draw ``count`` sequences of each query from ``softmax(logits / temperature)``.

    Raises:
        InputError: the temperature is not positive, or a pool has fewer places than steps.
    """
    if temperature <= 0:
        raise InputError(f"The sampling temperature must be above 0, got {temperature:g}")
    _check_steps(model, encoded, steps)
    state = model.begin(encoded, count)
    places, stop = [], encoded.mask_BK.shape[1] - 1
    total_BN = torch.zeros(state.used_BNK.shape[:2], device=encoded.mask_BK.device)
    ended_BN = torch.zeros_like(total_BN, dtype=torch.bool)
    for _ in range(steps):
        logits_BNK = model.logits(encoded, state)
        open_BNK = logits_BNK.masked_fill(state.used_BNK, -torch.inf)
        weights = (open_BNK / temperature).softmax(-1)
        drawn_BN = torch.multinomial(weights.flatten(0, 1), 1, generator=generator).view(weights.shape[:2])
        gain_BN = logits_BNK.log_softmax(-1).gather(-1, drawn_BN.unsqueeze(-1)).squeeze(-1)
        if model.config.stop:  # after a STOP a sequence only repeats it, at no cost
            drawn_BN, gain_BN = drawn_BN.masked_fill(ended_BN, stop), gain_BN.masked_fill(ended_BN, 0.0)
            ended_BN = drawn_BN == stop
        places.append(drawn_BN)
        total_BN = total_BN + gain_BN
        state = model.step(encoded, state, drawn_BN)
    places_BNS = torch.stack(places, 2)
    return Sequences(places_BNS, total_BN, _lengths(model, encoded, places_BNS))


@torch.no_grad()  # type: ignore[untyped-decorator]
def beam_search(model: PointerSelector, encoded: Encoded, steps: int, beam_size: int) -> Sequences:
    """The ``beam_size`` most probable sequences that a beam of that width finds, the best first.

    Raises:
        InputError: a pool has fewer places than steps.
    """
    _check_steps(model, encoded, steps)
    places = encoded.mask_BK.shape[1]
    state = model.begin(encoded, 1)
    batch = len(encoded.mask_BK)
    total_BN = torch.zeros(batch, 1, device=encoded.mask_BK.device)
    chosen_BNS = torch.zeros(batch, 1, 0, dtype=torch.long, device=encoded.mask_BK.device)
    for _ in range(steps):
        logits_BNK = model.logits(encoded, state)
        logps_BNK = logits_BNK.log_softmax(-1).masked_fill(state.used_BNK, -torch.inf)
        if model.config.stop and chosen_BNS.shape[2]:
            # After a STOP the only continuation is another one, at no cost.
            ended_BN = (chosen_BNS == places - 1).any(-1)
            again_K = torch.full((places,), -torch.inf, device=logps_BNK.device)
            again_K[-1] = 0.0
            logps_BNK = torch.where(ended_BN.unsqueeze(-1), again_K, logps_BNK)
        scores = (total_BN.unsqueeze(-1) + logps_BNK).flatten(1)
        total_BN, best_BN = scores.topk(min(beam_size, scores.shape[1]), dim=1)
        parent_BN, place_BN = best_BN // places, best_BN % places
        state = model.step(encoded, _of_parents(state, parent_BN), place_BN)
        history = chosen_BNS.gather(1, parent_BN.unsqueeze(-1).expand(-1, -1, chosen_BNS.shape[2]))
        chosen_BNS = torch.cat([history, place_BN.unsqueeze(-1)], 2)
    return Sequences(chosen_BNS, total_BN, _lengths(model, encoded, chosen_BNS))


def _of_parents(state: DecodingState, parent_BN: Tensor) -> DecodingState:
    index = parent_BN.unsqueeze(-1)
    return state._replace(
        state_BNH=state.state_BNH.gather(1, index.expand(-1, -1, state.state_BNH.shape[-1])),
        used_BNK=state.used_BNK.gather(1, index.expand(-1, -1, state.used_BNK.shape[-1])),
    )


def _lengths(model: PointerSelector, encoded: Encoded, places_BNS: Tensor) -> Tensor:
    """The number of shots before the first STOP."""
    if not model.config.stop:
        return torch.full(places_BNS.shape[:2], places_BNS.shape[2], device=places_BNS.device)
    is_shot_BNS = places_BNS != encoded.mask_BK.shape[1] - 1
    return is_shot_BNS.cumprod(-1).sum(-1)


def _check_steps(model: PointerSelector, encoded: Encoded, steps: int) -> None:
    smallest = int(encoded.mask_BK.sum(1).min()) - int(model.config.stop)
    if not 0 < steps <= smallest:
        raise InputError(f"{steps} steps are not possible: the smallest pool has {smallest} places")
