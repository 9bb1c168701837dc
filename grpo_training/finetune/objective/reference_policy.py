"""The policy at the start of a training: the reference of the KL, of clipping and of validation."""
# ruff: noqa: N806 - names end in their shape

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from grpo_training.finetune.models.loading import adapter_off

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from grpo_training.finetune.data.batches import Batch
    from grpo_training.finetune.data.samples import Sample


class ReferencePolicy:
    """Log-probs under the policy at the start of the training: the adapter disabled, or a frozen copy of the model.

    This policy never changes, so each sample is scored once. The log-probs are kept in ``known``, by the index of the
    sample, and are part of a checkpoint.

    Args:
        model: the model that learns.
        frozen: the copy, where there is no adapter.
        samples: every sample that may be scored; equal ones share an index.
    """

    def __init__(self, model: Any, frozen: Any, samples: Sequence[Sample]) -> None:
        self._model, self._frozen = model, frozen
        self._index: dict[Sample, int] = {}
        for number, sample in enumerate(samples):
            self._index.setdefault(sample, number)
        self.known: dict[int, Tensor] = {}

    def logps(self, rows: Sequence[Sample], batch: Batch, score: Callable[[Any, Batch], Tensor]) -> Tensor:
        """Log-probs (B, C) of the completions of ``rows``, 0 outside the mask.

        Args:
            rows: the samples of ``batch``.
            batch: the rows as tensors.
            score: log-probs (B, C) of a batch under a model.
        """
        indices = [self._index[row] for row in rows]
        if any(index not in self.known for index in indices):
            self._score(indices, batch, score)
        logps_BC = torch.zeros(batch.mask_BC.shape)
        for number, index in enumerate(indices):
            logps_BC[number, : len(self.known[index])] = self.known[index]
        return logps_BC.to(batch.mask_BC.device)

    def _score(self, indices: Sequence[int], batch: Batch, score: Callable[[Any, Batch], Tensor]) -> None:
        was_training = self._model.training
        self._model.eval()
        with torch.no_grad():
            if self._frozen is None:
                with adapter_off(self._model):
                    fresh_BC = score(self._model, batch)
            else:
                fresh_BC = score(self._frozen, batch)
        self._model.train(was_training)
        for number, index in enumerate(indices):
            length = int(batch.mask_BC[number].sum())
            self.known.setdefault(index, fresh_BC[number, :length].cpu().clone())
