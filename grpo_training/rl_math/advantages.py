"""Advantages within groups of rewards."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from engine.statistics.groups import group_stats

_FILE_EPS = 1e-6  # of files of scored rollouts
_STD_EPS = 1e-4  # as in TRL, added to the sample standard deviation


def advantages(rewards: Sequence[Sequence[float]], scale: str) -> list[list[float]]:
    """Advantages of groups.

    Args:
        rewards: of each group.
        scale: ``group``: (r - mean) / (std + 1e-4) by the sample standard deviation of the group, as in TRL, 0 where
            all are equal;
            ``batch``: (r - mean of the group) / (std + 1e-4) by the sample standard deviation of all rewards given;
            ``none``: r - mean of the group (Liu et al. 2025, Dr. GRPO).

    Raises:
        ValueError: another ``scale``, or a group without rewards.
    """
    if scale == "group":
        return [_by_sample_std(group) for group in rewards]
    if scale not in ("batch", "none"):
        raise ValueError(f"scale_rewards: expected group, batch or none, got {scale!r}")
    centred = [[reward - statistics.fmean(group) for reward in group] for group in rewards]
    if scale == "none":
        return centred
    everything = [reward for group in rewards for reward in group]
    divisor = (statistics.stdev(everything) if len(everything) > 1 else 0.0) + _STD_EPS
    return [[difference / divisor for difference in group] for group in centred]


def _by_sample_std(rewards: Sequence[float]) -> list[float]:
    if group_stats(rewards, tau=0.0).std == 0:  # equal but for rounding errors
        return [0.0] * len(rewards)
    mean, std = statistics.fmean(rewards), statistics.stdev(rewards)
    return [(reward - mean) / (std + _STD_EPS) for reward in rewards]


def group_advantages(rewards: Sequence[float | None]) -> list[float] | None:
    """The advantages of the rewards of one group, as files of scored rollouts define them.

    They are ``(r - mean) / (std + 1e-6)`` with the population standard deviation, and 0 where that is below 1e-6.

    Args:
        rewards: at least one; None where the reply could not be verified: then the group has no advantages.

    Raises:
        ValueError: there is no reward, or one is not finite.
    """
    known = [reward for reward in rewards if reward is not None]
    if rewards and len(known) < len(rewards):
        return None
    stats = group_stats(known, tau=0.0)
    if stats.std < _FILE_EPS:
        return [0.0] * len(known)
    return [(reward - stats.mean) / (stats.std + _FILE_EPS) for reward in known]
