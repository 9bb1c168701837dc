"""Tasks with plain answers, and tasks made of a prompt and a reward function."""

from engine.tasks.simple.task import PlainTask, Reward, RewardTask, SimpleTask

__all__ = ["PlainTask", "Reward", "RewardTask", "SimpleTask"]
