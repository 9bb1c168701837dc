"""Tasks with plain answers, and tasks made of a prompt and a reward function."""

from engine.tasks.simple.reward import Reward
from engine.tasks.simple.task import NO_TRUTH, PlainTask, RewardTask, SimpleTask

__all__ = ["NO_TRUTH", "PlainTask", "Reward", "RewardTask", "SimpleTask"]
