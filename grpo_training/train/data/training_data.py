"""The data of an offline training: groups to train on, held-out groups, teacher traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.errors import InputError
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.rollout_data import load_groups, split_validation
from grpo_training.train.data.samples import DropReport, Group, Sample
from grpo_training.train.data.teacher_samples import load_teacher_samples
from grpo_training.train.data.tokenising import tokenise_groups
from grpo_training.train.models.tokenizer import load_tokenizer


@dataclass(frozen=True)
class TrainingData:
    """Tokenised samples.

    Args:
        groups: to train on; each all responses to one prompt.
        validation: held-out groups, for the metrics ``validation/*``.
        teacher: teacher traces; empty without a teacher term.
        report: what was left out.
    """

    groups: Sequence[Group]
    validation: Sequence[Group] = ()
    teacher: Sequence[Sample] = ()
    report: DropReport = field(default_factory=DropReport)


def load_training_data(config: GRPOTrainingConfig) -> TrainingData:
    """Read, split and tokenise the data of a configuration.

    Raises:
        MissingInputError: there is no such dataset, model or file of traces.
        InputError: nothing in the dataset can be trained on.
    """
    groups, report = load_groups(config)
    _check_not_empty(groups, config, report)
    tokenizer = load_tokenizer(config)
    training, held_out = split_validation(groups, config.validation_share, config.seed)
    samples = tokenise_groups(training, tokenizer, config, report)
    validation = tokenise_groups(held_out, tokenizer, config, report)
    _check_not_empty(samples, config, report)
    teacher = load_teacher_samples(tokenizer, config, report)
    return TrainingData(samples, validation, teacher, report)


def _check_not_empty(groups: Sequence[Any], config: GRPOTrainingConfig, report: DropReport) -> None:
    if not groups:
        raise InputError(
            f"No groups to train on are left in {config.dataset_path}",
            why=str(report) or "It holds no groups.",
            fix="Collect more rollouts (more problems, a higher temperature), or correct what is listed above.",
        )
