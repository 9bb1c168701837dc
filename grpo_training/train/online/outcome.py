"""Whether an online training helped, by the rewards of the completions that it sampled, as no groups are held out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_training.train.config import MAX_KL

_FEWEST = 5
"""Logs in each third, below which the thirds are not compared; logs at the end whose KL is taken."""


def judge_training(logs: Sequence[Mapping[str, Any]]) -> tuple[bool, str]:
    """Whether the training helped as far as it can be seen, and the figures in one sentence.

    It did not if no completion could be scored, if the median KL of the last five logs is above :data:`MAX_KL`, or if
    the mean reward of the last third of the steps is lower than that of the first third by more than two standard
    errors.

    Args:
        logs: TRL's, in order.
    """
    divergences, logged = _values(logs, "kl"), _values(logs, "reward")
    divergence = statistics.median(divergences[-_FEWEST:]) if divergences else 0.0
    if not divergence <= MAX_KL:  # also NaN
        return False, f"the KL to the initial model is {divergence:.3g}, above {MAX_KL:g}"
    rewards = [reward for reward in logged if math.isfinite(reward)]  # of a step without a score it is NaN
    if logged and not rewards:
        return False, "no completion could be scored"
    third = len(rewards) // 3
    if third < _FEWEST:
        return True, "too few steps to compare the rewards"
    first, last = rewards[:third], rewards[-third:]
    change = statistics.fmean(last) - statistics.fmean(first)
    error = math.sqrt((statistics.variance(first) + statistics.variance(last)) / third)
    figures = f"{statistics.fmean(first):.3f} in the first third of the steps, {statistics.fmean(last):.3f} in the last"
    if change < -2 * error:
        return False, f"the reward of the sampled completions fell: {figures}"
    return True, f"reward of the sampled completions: {figures}"


def _values(logs: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [float(log[name]) for log in logs if isinstance(log.get(name), int | float)]
