"""The local GRPO fine-tune: rollouts that were collected train a model of this machine. torch lives here."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grpo_training.train.config import GRPOTrainingConfig, load_config
    from grpo_training.train.run import train_grpo
else:
    from engine.public_names import public_names

    __getattr__ = public_names(
        __name__,
        {
            "grpo_training.train.config": "GRPOTrainingConfig load_config",
            "grpo_training.train.run": "train_grpo",
        },
    )

__all__ = ["GRPOTrainingConfig", "load_config", "train_grpo"]
