"""The policy at the start of a training: the reference of the KL, of clipping and of validation."""
# ruff: noqa: N803, N806 - names end in their shape

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from grpo_training.train.data.batches import Batch
from grpo_training.train.data.samples import Sample


class ReferencePolicy:
    """Log-probs under the policy at the start of the training.

    This policy never changes, so each sample is scored once, before the first step, and no second model is needed. The
    log-probs are kept in ``known`` on the CPU, by the index of the sample, and are part of a checkpoint.

    Args:
        samples: every sample that may be scored; equal ones share an index.
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._index: dict[Sample, int] = {}
        for number, sample in enumerate(samples):
            self._index.setdefault(sample, number)
        self.known: dict[int, Tensor] = {}

    def missing(self, rows: Iterable[Sample]) -> list[Sample]:
        """Those of ``rows`` that were not scored yet, each once."""
        return [row for row in dict.fromkeys(rows) if self._index[row] not in self.known]

    def by_index(self, rows: Sequence[Sample], logps_BC: Tensor, batch: Batch) -> dict[int, Tensor]:
        """The log-probs (B, C) of ``rows`` as entries of ``known``."""
        lengths = batch.mask_BC.sum(1).tolist()
        return {
            self._index[row]: logps_BC[number, :length].cpu().clone()
            for number, (row, length) in enumerate(zip(rows, lengths, strict=True))
        }

    def logps(self, rows: Sequence[Sample], batch: Batch) -> Tensor:
        """Log-probs (B, C) of the completions of ``rows``, 0 outside the mask.

        Args:
            rows: the samples of ``batch``, all of them scored.
            batch: the rows as tensors.
        """
        logps_BC = torch.zeros(batch.mask_BC.shape)
        for number, row in enumerate(rows):
            known = self.known[self._index[row]]
            logps_BC[number, : len(known)] = known
        return logps_BC.to(batch.mask_BC.device)
