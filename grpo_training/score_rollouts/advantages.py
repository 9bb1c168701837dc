"""Advantages within groups, as seed files of scored rollouts define them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class GroupAdvantages:
    """The advantages of a group.

    Args:
        values: one per reward, in their order; None if the group has none, because a reward is missing.
        is_zeroed: whether the std is below the limit, so that all are 0.
    """

    values: tuple[float, ...] | None
    is_zeroed: bool = False


def group_advantages(
    rewards: Sequence[float | None],
    *,
    eps: float = 1e-6,
    std_min: float = 1e-6,
    norm: Literal["std", "mean-only"] = "std",
) -> GroupAdvantages:
    """The advantages of the rewards of one group.

    Args:
        rewards: at least one; None where the reply could not be verified.
        eps: added to the divisor.
        std_min: with a population standard deviation below it all advantages are 0.
        norm: ``std``: ``(r - mean) / (std + eps)``; ``mean-only``: ``r - mean`` (arXiv 2503.20783).

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
    if std < std_min or max(known) == min(known):
        return GroupAdvantages((0.0,) * len(known), is_zeroed=True)
    divisor = 1.0 if norm == "mean-only" else std + eps
    return GroupAdvantages(tuple((reward - mean) / divisor for reward in known))
