"""When a server's log-probs may serve as those of the old policy, and when only the reply itself is of use."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_training.serving.model_folder import content_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_training.finetune.config import GRPOTrainingConfig
    from grpo_training.finetune.data.samples import DropReport, TrainingGroup

OTHER_TEMPERATURE = "groups: their stored log-probs are of another temperature than the loss, so they are not used"


def without_unusable_logprobs(
    groups: Sequence[TrainingGroup], settings: GRPOTrainingConfig, report: DropReport
) -> list[TrainingGroup]:
    """The groups; stored log-probs stay where the model is the one that sampled and temperatures agree.

    Without them the ratio to the old policy is taken as 1. What is taken away, and what was sampled by another model,
    is counted in ``report``.
    """
    trained = TrainedModel(settings)
    kept = []
    for group in groups:
        has_logprobs = any(response.logprobs is not None for response in group.responses)
        if not trained.is_called(group.model):
            report.remark(_other_model(group.model, settings))
        elif has_logprobs and not _same_temperature(group, settings):
            report.remark(OTHER_TEMPERATURE)
            report.detail(_temperature_advice(group, settings))
        else:
            kept.append(group)
            continue
        kept.append(replace(group, responses=tuple(replace(one, logprobs=None) for one in group.responses)))
    return kept


class TrainedModel:
    """The model that is trained, as records may name it.

    Args:
        settings: ``model_name_or_path`` and ``served_as`` are read.
    """

    def __init__(self, settings: GRPOTrainingConfig) -> None:
        self._served_as = settings.served_as
        self._place = _place(settings.model_name_or_path)
        folder = Path(self._place)
        self._digest = content_digest([folder]) if (folder / "config.json").is_file() else ""

    def is_called(self, name: str) -> bool:
        """Whether a record's model is this one: by name, by folder, by ``served_as``, or by its weights.

        The local server names a model ``<folder>-<digest of its content>``.
        """
        if not name:
            return False
        if name == self._served_as or _place(name) == self._place:
            return True
        return bool(self._digest) and name.endswith(f"-{self._digest}")


def _place(name: str) -> str:
    """A folder's absolute path; of hub names it keeps equal ones equal. The disk is not asked."""
    return os.path.abspath(os.path.expanduser(name))


def _other_model(sampled_by: str, settings: GRPOTrainingConfig) -> str:
    advice = f" (say --served-as {sampled_by} if it is the same)" if sampled_by else ""
    return (
        f"groups: sampled by {sampled_by or 'a model whose name is not stored'}, not by {settings.model_name_or_path}: "
        f"trained off-policy, without ratios{advice}"
    )


def _same_temperature(group: TrainingGroup, settings: GRPOTrainingConfig) -> bool:
    """Raw log-probs are those of temperature 1, whatever the sampling was."""
    stored = 1.0 if settings.stored_logprobs == "raw" else group.temperature
    return stored == settings.temperature


def _temperature_advice(group: TrainingGroup, settings: GRPOTrainingConfig) -> str:
    if settings.stored_logprobs == "raw":
        return (
            f"The loss divides logits by {settings.temperature}. --temperature 1 uses stored log-probs; so does "
            "--stored-logprobs processed, where the server gave them after its temperature."
        )
    return f"Sampled at {group.temperature}, the loss divides logits by {settings.temperature}."
