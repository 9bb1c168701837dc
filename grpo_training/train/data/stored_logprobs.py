"""Decides whether stored log-probs may be used as those of the old policy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from grpo_training.serve.model_folder import cached_model, content_digest
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.samples import DropReport, TrainingGroup

OTHER_TEMPERATURE = (
    "groups: stored log-probs are at temperature 1, and the loss divides logits by another one, so they are not used"
)


def without_unusable_logprobs(
    groups: Sequence[TrainingGroup], settings: GRPOTrainingConfig, report: DropReport
) -> list[TrainingGroup]:
    """The groups, without log-probs where the sampling model or its temperature is another one.

    ``missing_logprobs`` says what takes their place. Groups of another model or temperature are counted in ``report``.
    """
    trained = TrainedModel(settings)
    kept = []
    for group in groups:
        has_logprobs = any(response.logprobs is not None for response in group.responses)
        if not trained.is_called(group.model):
            report.remark(_other_model(group.model, settings))
        elif has_logprobs and settings.temperature != 1:
            report.remark(OTHER_TEMPERATURE)
        else:
            kept.append(group)
            continue
        kept.append(replace(group, responses=tuple(replace(response, logprobs=None) for response in group.responses)))
    return kept


class TrainedModel:
    """Recognises the trained model by the names that records may have for it.

    Args:
        settings: its ``model_name_or_path`` and ``served_as`` are used.
    """

    def __init__(self, settings: GRPOTrainingConfig) -> None:
        self._served_as = settings.served_as
        self._place = _place(settings.model_name_or_path)
        folder = cached_model(settings.model_name_or_path) or Path(self._place)
        self._digest = content_digest([folder]) if (folder / "config.json").is_file() else ""

    def is_called(self, name: str) -> bool:
        """Whether ``name`` is this model: its name, folder, ``served_as``, or the digest of its weights.

        The local server names a model ``<folder>-<digest of its content>``.
        """
        if not name:
            return False
        if name == self._served_as or _place(name) == self._place:
            return True
        return bool(self._digest) and name.endswith(f"-{self._digest}")


def _place(name: str) -> str:
    """The absolute path of a folder, without accessing the disk; equal hub names give equal results."""
    return os.path.abspath(os.path.expanduser(name))


def _other_model(sampled_by: str, settings: GRPOTrainingConfig) -> str:
    if not sampled_by:
        return "groups: the model that sampled them is not recorded: trained off-policy, without stored log-probs"
    return (
        f"groups: sampled by {sampled_by}, not by {settings.model_name_or_path}: trained off-policy, without stored "
        f"log-probs (pass --served-as {sampled_by} if it is the same model)"
    )
