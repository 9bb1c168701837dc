"""The policy that a training began with, for the KL and for what else is measured against it."""
# ruff: noqa: N806 - names end in their shape

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from grpo_training.finetune.model_loading import adapter_off

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from grpo_training.finetune.data.samples import Sample
    from grpo_training.finetune.offline.batches import Batch


class ReferencePolicy:
    """Log-probs under the policy that the training began with: the adapter off, or a frozen copy of a whole model.

    That policy never changes, so each sample is scored once and kept.

    Args:
        model: the model that learns.
        frozen: the copy, where there is no adapter.
        samples: all that may be asked for.
    """

    def __init__(self, model: Any, frozen: Any, samples: Sequence[Sample]) -> None:
        self._model, self._frozen = model, frozen
        self._places = {id(sample): place for place, sample in enumerate(samples)}
        self.known: dict[int, Tensor] = {}

    def logps(self, rows: Sequence[Sample], batch: Batch, score: Callable[[Any, Batch], Tensor]) -> Tensor:
        """Of the rows' completions, (B, C), zero outside the mask; ``score`` gives them for a model."""
        places = [self._places[id(row)] for row in rows]
        if any(place not in self.known for place in places):
            self._learn(places, batch, score)
        logps_BC = torch.zeros(batch.mask_BC.shape)
        for number, place in enumerate(places):
            logps_BC[number, : len(self.known[place])] = self.known[place]
        return logps_BC.to(batch.mask_BC.device)

    def _learn(self, places: Sequence[int], batch: Batch, score: Callable[[Any, Batch], Tensor]) -> None:
        was_training = self._model.training
        self._model.eval()
        with torch.no_grad():
            if self._frozen is None:
                with adapter_off(self._model):
                    fresh_BC = score(self._model, batch)
            else:
                fresh_BC = score(self._frozen, batch)
        self._model.train(was_training)
        for number, place in enumerate(places):
            length = int(batch.mask_BC[number].sum())
            self.known.setdefault(place, fresh_BC[number, :length].cpu().clone())
