"""Advantages within groups of rewards."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.statistics.groups import group_stats

_FILE_EPS = 1e-6  # of files of scored rollouts
_STD_EPS = 1e-4  # as in TRL, added to the sample standard deviation


def advantages(rewards: Sequence[Sequence[float]], scale: str, std: str = "sample") -> list[list[float]]:
    """Advantages of groups.

    Args:
        rewards: of each group.
        scale: ``group``: (r - mean) / std of the group (Shao et al. 2024, section 4.1.2), 0 where all are equal;
            ``batch``: (r - mean of the group) / (std + 1e-4) by the sample standard deviation of all rewards given;
            ``none``: r - mean of the group (Liu et al. 2025, Dr. GRPO).
        std: of ``group``: ``sample``, plus 1e-4, as in TRL; ``population``, as in the records of the generators.

    Raises:
        ValueError: another ``scale``, or a group without rewards.
    """
    if scale == "group" and std == "population":
        return [group_stats(group, tau=0.0).advantages for group in rewards]
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


@dataclass(frozen=True)
class GroupAdvantages:
    """The advantages of a group.

    Args:
        values: one per reward, in their order; None if the group has none, because a reward is missing.
        is_zeroed: whether the std is below the limit, so that all are 0.
    """

    values: tuple[float, ...] | None
    is_zeroed: bool = False


def group_advantages(rewards: Sequence[float | None], *, norm: Literal["std", "mean-only"] = "std") -> GroupAdvantages:
    """The advantages of the rewards of one group, as files of scored rollouts define them.

    Args:
        rewards: at least one; None where the reply could not be verified.
        norm: ``std``: ``(r - mean) / (std + 1e-6)`` with the population standard deviation, 0 where that is below 1e-6;
            ``mean-only``: ``r - mean`` (arXiv 2503.20783).

    Raises:
        ValueError: there is no reward, or one is not finite.
    """
    known = [reward for reward in rewards if reward is not None]
    if not rewards or not all(map(math.isfinite, known)):
        raise ValueError(f"expected finite rewards, got {list(rewards)}")
    if len(known) < len(rewards):
        return GroupAdvantages(None)
    mean = math.fsum(known) / len(known)
    std = math.sqrt(math.fsum((reward - mean) ** 2 for reward in known) / len(known))
    if std < _FILE_EPS or max(known) == min(known):
        return GroupAdvantages((0.0,) * len(known), is_zeroed=True)
    divisor = 1.0 if norm == "mean-only" else std + _FILE_EPS
    return GroupAdvantages(tuple((reward - mean) / divisor for reward in known))
