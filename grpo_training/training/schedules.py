"""Schedules: temperatures, term weights, beta and the learning rate as functions of the step.

All but :class:`AdaptiveKL` depend on the step alone, so a resumed run needs no state for them.
Steps and epochs count from 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

LRSchedule = Literal["cosine", "linear", "constant"]


class TermSettings(Protocol):
    """The settings of :func:`term_weights`."""

    grpo_weight: float
    teacher_sft_weight: float
    self_sft_weight: float
    sft_schedule: Literal["constant", "linear", "chord"]
    chord_mu_peak: float
    chord_mu_end: float
    chord_warmup_steps: int
    chord_decay_steps: int


class KLSettings(Protocol):
    """The settings of :class:`AdaptiveKL`."""

    beta: float
    kl_target_low: float
    kl_target_high: float
    kl_adjustment_factor: float
    beta_min: float
    beta_max: float


def rce_temperature(step: int, total_steps: int, start: float = 2.0, end: float = 0.5) -> float:
    """The temperature of RCE: linear from ``start`` at the first step to ``end`` at the last."""
    return start + (end - start) * _progress(step, total_steps - 1)


def curriculum_top_k(epoch: int, early_epochs: int, early_top_k: int | None, late_top_k: int | None) -> int | None:
    """The number of responses per group, the best first, that an epoch trains on; None: all."""
    return early_top_k if epoch < early_epochs else late_top_k


@dataclass(frozen=True)
class TermWeights:
    """The weights of the loss terms at one step."""

    grpo: float
    teacher_sft: float
    self_sft: float


def term_weights(step: int, total_steps: int, config: TermSettings, *, has_teacher: bool) -> TermWeights:
    """The weights of the terms at ``step``, by ``config.sft_schedule``.

    ``constant`` keeps the configured weights. ``linear`` decays both imitation terms to 0. ``chord`` moves from the
    teacher to the rewards: ``(1 - mu)`` times the policy loss and ``mu`` times the teacher term, which is the
    objective of arXiv 2508.11408 where both configured weights are 1; self-SFT keeps its weight.
    ``chord_decay_steps`` 0 means all steps after its warm-up. Without a teacher its term is 0, and ``chord`` is
    ``constant``.
    """
    base = TermWeights(config.grpo_weight, config.teacher_sft_weight if has_teacher else 0.0, config.self_sft_weight)
    if config.sft_schedule == "linear":
        left = 1.0 - _progress(step, total_steps)
        return TermWeights(base.grpo, base.teacher_sft * left, base.self_sft * left)
    if config.sft_schedule == "constant" or not has_teacher:
        return base
    mu = chord_mu(
        step,
        peak=config.chord_mu_peak,
        end=config.chord_mu_end,
        warmup_steps=config.chord_warmup_steps,
        decay_steps=config.chord_decay_steps or max(total_steps - config.chord_warmup_steps, 1),
    )
    return TermWeights(base.grpo * (1.0 - mu), base.teacher_sft * mu, base.self_sft)


def chord_mu(step: int, *, peak: float, end: float, warmup_steps: int, decay_steps: int) -> float:
    """The weight of the teacher in CHORD: linear from 0 to ``peak``, then a half cosine to ``end``."""
    if step < warmup_steps:
        return peak * step / warmup_steps
    return end + (peak - end) * _half_cosine(_progress(step - warmup_steps, decay_steps))


def lr_factor(step: int, *, total_steps: int, warmup_steps: int, schedule: LRSchedule = "cosine") -> float:
    """The factor of the learning rate: linear warm-up to 1, then ``schedule`` towards 0 (``constant``: 1).

    Unlike in the schedules of transformers, the rate of step 0 is above 0 (``1 / warmup_steps``), and so is that of
    the last step.
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if schedule == "constant":
        return 1.0
    done = _progress(step - warmup_steps, total_steps - warmup_steps)
    return _half_cosine(done) if schedule == "cosine" else 1.0 - done


@dataclass
class AdaptiveKL:
    """Adapts beta to the measured KL: raised above ``high``, lowered below ``low``.

    ``state_dict`` is part of a checkpoint, so that a resumed run continues with its beta.
    """

    beta: float
    low: float = 0.01
    high: float = 0.1
    factor: float = 1.5
    minimum: float = 0.001
    maximum: float = 10.0

    @classmethod
    def of(cls, config: KLSettings) -> AdaptiveKL:
        """The controller that a configuration describes, at its initial beta."""
        return cls(
            beta=config.beta,
            low=config.kl_target_low,
            high=config.kl_target_high,
            factor=config.kl_adjustment_factor,
            minimum=config.beta_min,
            maximum=config.beta_max,
        )

    def update(self, kl: float) -> float:
        """Adapt beta to the mean KL per token (nats) since the last call, and return it. NaN changes nothing."""
        if kl > self.high:
            self.beta *= self.factor
        elif kl < self.low:
            self.beta /= self.factor
        self.beta = min(max(self.beta, self.minimum), self.maximum)
        return self.beta

    def state_dict(self) -> dict[str, float]:
        """The state: beta. The rest is configuration."""
        return {"beta": self.beta}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Restore the state of :meth:`state_dict`."""
        self.beta = float(state["beta"])


def _progress(step: int, steps: int) -> float:
    """The fraction of ``steps`` that is done, in [0, 1]; 0 at step 0 also where ``steps`` is 0."""
    return min(max(step / steps, 0.0), 1.0) if steps > 0 else float(step > 0)


def _half_cosine(done: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * done))
