import math
import types

import pytest

from grpo_training.train.objective.term_weights import TermWeights, adaptive_kl, chord_mu, term_weights


def test_chord_mu_rises_on_a_line_and_falls_on_a_half_cosine():
    def mu(step):
        return chord_mu(step, peak=0.9, end=0.1, warmup_steps=4, decay_steps=8)

    assert [mu(step) for step in (0, 1, 2, 4)] == pytest.approx([0.0, 0.225, 0.45, 0.9])
    assert mu(6) == pytest.approx(0.1 + 0.8 * 0.5 * (1 + math.cos(math.pi / 4)))
    assert mu(8) == pytest.approx(0.5)  # half way between 0.9 and 0.1
    assert mu(12) == mu(100) == pytest.approx(0.1)
    assert chord_mu(0, peak=0.9, end=0.1, warmup_steps=0, decay_steps=8) == 0.9


BASE = TermWeights(grpo=1.0, teacher_sft=0.4, self_sft=0.2)


def weights_at(step, schedule, decay_steps=0, has_teacher=True):
    config = types.SimpleNamespace(
        grpo_weight=1.0,
        teacher_sft_weight=0.4,
        self_sft_weight=0.2,
        sft_schedule=schedule,
        chord_mu_peak=0.8,
        chord_mu_end=0.0,
        chord_warmup_steps=2,
        chord_decay_steps=decay_steps,
    )
    return term_weights(step, 10, config, has_teacher=has_teacher)


def test_weights_of_the_terms():
    assert weights_at(7, "constant") == BASE
    assert weights_at(0, "linear") == BASE
    assert weights_at(5, "linear") == TermWeights(1.0, 0.2, 0.1)
    assert weights_at(10, "linear") == TermWeights(1.0, 0.0, 0.0)


def test_chord_moves_weight_from_the_teacher_to_the_policy():
    start, peak = weights_at(0, "chord"), weights_at(2, "chord")
    assert (start.grpo, start.teacher_sft) == (1.0, 0.0)
    assert (peak.grpo, peak.teacher_sft) == (pytest.approx(0.2), pytest.approx(0.32))
    # half of the eight steps after the warm-up: mu 0.4
    half = weights_at(6, "chord")
    assert (half.grpo, half.teacher_sft, half.self_sft) == (pytest.approx(0.6), pytest.approx(0.16), 0.2)
    assert weights_at(6, "chord", decay_steps=4).teacher_sft == pytest.approx(0.0)
    assert weights_at(6, "chord", has_teacher=False) == TermWeights(1.0, 0.0, 0.2)


def test_the_controller_of_beta_takes_every_bound_from_the_configuration():
    config = types.SimpleNamespace(
        beta=0.2, kl_target_low=0.02, kl_target_high=0.3, kl_adjustment_factor=2.0, beta_min=0.05, beta_max=0.5
    )
    control = adaptive_kl(config)
    assert [control.update(kl) for kl in (0.2, 0.31, 0.31)] == [0.2, 0.4, 0.5]
    assert [control.update(0.019) for _ in range(5)] == [0.25, 0.125, 0.0625, 0.05, 0.05]
