"""The steps of ``python -m grpo_training.selector``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from grpo_training.selector.asking.infer import infer
from grpo_training.selector.asking.rewards import measure_rewards
from grpo_training.selector.data.beams import make_beams
from grpo_training.selector.data.embed import embed_dataset
from grpo_training.selector.predict import predict
from grpo_training.selector.training.run import post_train, train_sft

FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "embed": embed_dataset,
    "beams": make_beams,
    "rewards": measure_rewards,
    "sft": train_sft,
    "train": post_train,
    "predict": predict,
    "infer": infer,
}
