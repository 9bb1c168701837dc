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
    """The groups, without log-probs where another model sampled, or the loss is at another temperature than they are.

    Such groups are counted in ``report``.
    """
    folder = cached_model(settings.model_name_or_path) or Path(_absolute(settings.model_name_or_path))
    digest = content_digest([folder]) if (folder / "config.json").is_file() else ""  # of weights on this machine
    kept = []
    for group in groups:
        is_trained = is_trained_model(group.model, settings, digest)
        has_logprobs = any(response.logprobs is not None for response in group.responses)
        if is_trained and not (has_logprobs and settings.temperature != 1):
            kept.append(group)
            continue
        report.remark(OTHER_TEMPERATURE if is_trained else _other_model(group.model, settings))
        kept.append(replace(group, responses=tuple(replace(response, logprobs=None) for response in group.responses)))
    return kept


def is_trained_model(name: str, settings: GRPOTrainingConfig, digest: str) -> bool:
    """Whether a record names the trained model: by its name or folder, ``served_as``, or the digest of its weights.

    The local server names a model ``<folder>-<digest of its content>``.
    """
    names = {settings.served_as, _absolute(settings.model_name_or_path)}
    is_named = bool(name) and not names.isdisjoint((name, _absolute(name)))
    return is_named or (bool(digest) and name.endswith(f"-{digest}"))


def _absolute(name: str) -> str:
    """The absolute path of a folder, without accessing the disk; equal hub names give equal results."""
    return os.path.abspath(os.path.expanduser(name))


def _other_model(sampled_by: str, settings: GRPOTrainingConfig) -> str:
    if not sampled_by:
        return "groups: the model that sampled them is not recorded: trained off-policy, without stored log-probs"
    return (
        f"groups: sampled by {sampled_by}, not by {settings.model_name_or_path}: trained off-policy, without stored "
        f"log-probs (pass --served-as {sampled_by} if it is the same model)"
    )
