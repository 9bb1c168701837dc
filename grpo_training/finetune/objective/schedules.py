"""What changes while a run goes on: temperatures, weights, beta, the learning rate.

All but :class:`AdaptiveKL` are functions of the step alone, so that a resumed run needs no state for them.
Steps and epochs count from 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from grpo_training.finetune.config import GRPOTrainingConfig

SFTSchedule = Literal["constant", "linear", "chord"]
LRSchedule = Literal["cosine", "linear", "constant"]


def rce_temperature(step: int, total_steps: int, start: float = 2.0, end: float = 0.5) -> float:
    """From ``start`` at the first step to ``end`` at the last, on a line."""
    return start + (end - start) * _progress(step, total_steps - 1)


def curriculum_top_k(epoch: int, early_epochs: int, early_top_k: int | None, late_top_k: int | None) -> int | None:
    """How many of a group's responses, by reward, an epoch trains on; None means all."""
    return early_top_k if epoch < early_epochs else late_top_k


@dataclass(frozen=True)
class TermWeights:
    """The factors of the objective's terms at one step."""

    grpo: float
    teacher_sft: float
    self_sft: float


def term_weights(
    step: int,
    total_steps: int,
    base: TermWeights,
    *,
    schedule: SFTSchedule,
    chord_mu_peak: float,
    chord_mu_end: float,
    chord_warmup_steps: int,
    chord_decay_steps: int,
) -> TermWeights:
    """The terms' weights at ``step``.

    ``constant`` keeps ``base``. ``linear`` lets both imitation terms fall to 0 towards the end. ``chord`` moves from
    the teacher to the rewards: ``(1 - mu)`` times the policy's term and ``mu`` times the teacher's, which is the
    objective of arXiv 2508.11408 where both base weights are 1; the policy's own successes keep their weight.
    ``chord_decay_steps`` 0 means all steps that the warm-up leaves.
    """
    if schedule == "constant":
        return base
    if schedule == "linear":
        left = 1.0 - _progress(step, total_steps)
        return TermWeights(base.grpo, base.teacher_sft * left, base.self_sft * left)
    decay_steps = chord_decay_steps or max(total_steps - chord_warmup_steps, 1)
    mu = chord_mu(step, peak=chord_mu_peak, end=chord_mu_end, warmup_steps=chord_warmup_steps, decay_steps=decay_steps)
    return TermWeights(base.grpo * (1.0 - mu), base.teacher_sft * mu, base.self_sft)


def chord_mu(step: int, *, peak: float, end: float, warmup_steps: int, decay_steps: int) -> float:
    """The teacher's share: a line from 0 to ``peak`` in ``warmup_steps``, then a half cosine to ``end``."""
    if step < warmup_steps:
        return peak * step / warmup_steps
    return end + (peak - end) * _half_cosine(_progress(step - warmup_steps, decay_steps))


def lr_factor(step: int, *, total_steps: int, warmup_steps: int, schedule: LRSchedule = "cosine") -> float:
    """What the learning rate is multiplied by: a line up to 1, then ``schedule`` towards 0 (or 1 for good).

    Unlike the schedules of transformers, step 0 already learns (``1 / warmup_steps``), and so does the last one.
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if schedule == "constant":
        return 1.0
    done = _progress(step - warmup_steps, total_steps - warmup_steps)
    return _half_cosine(done) if schedule == "cosine" else 1.0 - done


@dataclass
class AdaptiveKL:
    """A thermostat for beta: more of it when the policy strays, less when it hardly moves.

    ``state_dict`` belongs into the checkpoint: a resumed run goes on with the beta it had.
    """

    beta: float
    low: float = 0.01
    high: float = 0.1
    factor: float = 1.5
    minimum: float = 0.001
    maximum: float = 10.0

    @classmethod
    def of(cls, config: GRPOTrainingConfig) -> AdaptiveKL:
        """As a configuration wants it, at the beta it starts from."""
        return cls(
            beta=config.beta,
            low=config.kl_target_low,
            high=config.kl_target_high,
            factor=config.kl_adjustment_factor,
            minimum=config.beta_min,
            maximum=config.beta_max,
        )

    def update(self, kl: float) -> float:
        """Adapt beta to the mean KL per token (nats) of the steps since the last call; the new beta.

        A KL that is NaN says nothing and changes nothing.
        """
        if kl > self.high:
            self.beta *= self.factor
        elif kl < self.low:
            self.beta /= self.factor
        self.beta = min(max(self.beta, self.minimum), self.maximum)
        return self.beta

    def state_dict(self) -> dict[str, float]:
        """What changes: beta. The rest is configuration."""
        return {"beta": self.beta}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Take over what :meth:`state_dict` gave."""
        self.beta = float(state["beta"])


def _progress(step: int, steps: int) -> float:
    """How much of ``steps`` is done, 0 to 1. Nothing to do counts as not begun: a single step has the start value."""
    return min(max(step / steps, 0.0), 1.0) if steps > 0 else float(step > 0)


def _half_cosine(done: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * done))
