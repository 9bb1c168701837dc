"""Schedules: temperatures, beta and the learning rate as functions of the step.

All but :class:`AdaptiveKL` depend on the step alone, so a resumed run needs no state for them.
Steps and epochs count from 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

LRSchedule = Literal["cosine", "linear", "constant"]


def rce_temperature(step: int, total_steps: int, start: float = 2.0, end: float = 0.5) -> float:
    """The temperature of RCE: linear from ``start`` at the first step to ``end`` at the last."""
    return start + (end - start) * share_done(step, total_steps - 1)


def lr_factor(step: int, *, total_steps: int, warmup_steps: int, schedule: LRSchedule = "cosine") -> float:
    """The factor of the learning rate: linear warm-up to 1, then ``schedule`` towards 0 (``constant``: 1).

    Unlike in the schedules of transformers, the rate of step 0 is above 0 (``1 / warmup_steps``), and so is that of
    the last step.
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if schedule == "constant":
        return 1.0
    done = share_done(step - warmup_steps, total_steps - warmup_steps)
    return 0.5 * (1.0 + math.cos(math.pi * done)) if schedule == "cosine" else 1.0 - done


@dataclass
class AdaptiveKL:
    """Adapts beta to the measured KL: raised above ``high``, lowered below ``low``. Its state is ``beta``."""

    beta: float
    low: float = 0.01
    high: float = 0.1
    factor: float = 1.5
    minimum: float = 0.001
    maximum: float = 10.0

    def update(self, kl: float) -> float:
        """Adapt beta to the mean KL per token (nats) since the last call, and return it. NaN changes nothing."""
        if kl > self.high:
            self.beta *= self.factor
        elif kl < self.low:
            self.beta /= self.factor
        self.beta = min(max(self.beta, self.minimum), self.maximum)
        return self.beta


def share_done(step: int, steps: int) -> float:
    """The fraction of ``steps`` that is done, in [0, 1]; 0 at step 0 also where ``steps`` is 0."""
    return min(max(step / steps, 0.0), 1.0) if steps > 0 else float(step > 0)
