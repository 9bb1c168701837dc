"""The steps of ``python -m grpo_training.selector``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from grpo_training.cli.steps import StepSettings
from grpo_training.selector.asking.infer import infer
from grpo_training.selector.asking.rewards import measure_rewards
from grpo_training.selector.data.beams import make_beams
from grpo_training.selector.data.embed import embed_dataset
from grpo_training.selector.predict import predict
from grpo_training.selector.settings import (
    BeamsSettings,
    EmbedSettings,
    InferSettings,
    PredictSettings,
    RewardsSettings,
    SftSettings,
    TrainSettings,
)
from grpo_training.selector.training.run import post_train, train_sft

_STEPS: Mapping[type[StepSettings], Callable[..., int]] = {
    EmbedSettings: embed_dataset,
    BeamsSettings: make_beams,
    RewardsSettings: measure_rewards,
    SftSettings: train_sft,
    TrainSettings: post_train,
    PredictSettings: predict,
    InferSettings: infer,
}


def run_step(settings: StepSettings) -> int:
    """Run the step that the settings belong to; the exit code."""
    return _STEPS[type(settings)](settings)
