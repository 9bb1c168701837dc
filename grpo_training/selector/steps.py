"""The steps of ``python -m grpo_training.selector``."""

from __future__ import annotations

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


def run_step(settings: StepSettings) -> int:
    """Run the step that the settings belong to; the exit code."""
    match settings:
        case EmbedSettings():
            return embed_dataset(settings)
        case BeamsSettings():
            return make_beams(settings)
        case RewardsSettings():
            return measure_rewards(settings)
        case SftSettings():
            return train_sft(settings)
        case TrainSettings():
            return post_train(settings)
        case PredictSettings():
            return predict(settings)
        case InferSettings():
            return infer(settings)
    raise AssertionError(type(settings))
