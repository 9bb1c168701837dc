import math

import pytest

from grpo_training.rl_math.schedules import AdaptiveKL, lr_factor, rce_temperature


def test_rce_temperature_falls_on_a_line_from_the_first_step_to_the_last():
    # 2 + (0.5 - 2) s / 3
    assert [rce_temperature(step, 4) for step in range(4)] == pytest.approx([2.0, 1.5, 1.0, 0.5])
    assert rce_temperature(9, 4) == 0.5
    assert rce_temperature(0, 1) == 2.0


def test_the_learning_rate_warms_up_and_falls():
    def rate(step, schedule="cosine"):
        return lr_factor(step, total_steps=12, warmup_steps=4, schedule=schedule)

    assert [rate(step) for step in range(5)] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])
    assert rate(8) == pytest.approx(0.5)
    assert 0 < rate(11) < 0.05
    assert rate(12) == pytest.approx(0.0)
    assert rate(8, "linear") == pytest.approx(0.5)
    assert rate(6, "linear") == pytest.approx(0.75)
    assert rate(11, "constant") == 1.0
    assert lr_factor(0, total_steps=1, warmup_steps=0) == 1.0


def test_adaptive_kl_follows_the_measured_kl():
    control = AdaptiveKL(0.1)
    assert control.update(0.101) == pytest.approx(0.15)
    assert control.update(0.05) == pytest.approx(0.15)
    assert control.update(0.1) == pytest.approx(0.15)  # the bounds themselves are inside
    assert control.update(0.01) == pytest.approx(0.15)
    assert control.update(0.0099) == pytest.approx(0.1)
    assert control.update(0.2) == pytest.approx(0.15)
    assert control.update(0.001) == pytest.approx(0.1)


def test_adaptive_kl_stays_in_its_bounds():
    control = AdaptiveKL(0.1)
    assert [control.update(1.0) for _ in range(20)][-1] == 10.0
    assert [control.update(0.0) for _ in range(40)][-1] == 0.001
    assert control.update(math.inf) == pytest.approx(0.0015)


def test_adaptive_kl_is_not_moved_by_a_kl_that_is_not_a_number():
    control = AdaptiveKL(0.3)
    assert control.update(math.nan) == 0.3
