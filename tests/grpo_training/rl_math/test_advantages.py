"""Advantages by hand, and compared with those of the trainer."""

import math

import pytest

from grpo_training.rl_math.advantages import advantages, group_advantages


def test_the_vector_of_the_format():
    found = group_advantages([1.0, 0.0, 0.0, 1.0])
    assert found.values == pytest.approx((0.999998, -0.999998, -0.999998, 0.999998), abs=1e-11)


def test_hand_computed_and_without_a_divisor():
    # mean 0.5, deviations 0.5, -0.25, -0.25; variance 0.125; std sqrt(1/8)
    assert group_advantages([1.0, 0.25, 0.25]).values == pytest.approx(
        (math.sqrt(2), -math.sqrt(2) / 2, -math.sqrt(2) / 2), abs=1e-5
    )
    assert group_advantages([1.0, 0.25, 0.25], norm="mean-only").values == pytest.approx((0.5, -0.25, -0.25))


@pytest.mark.parametrize("rewards", [[0.3], [0.3, 0.3, 0.3], [0.1 + 0.2, 0.3], [0.0]])
def test_equal_rewards_have_no_advantage(rewards):
    found = group_advantages(rewards)
    assert found.values == (0.0,) * len(rewards)
    assert found.is_zeroed


def test_a_group_with_a_missing_reward_has_none():
    assert group_advantages([1.0, None, 0.0]).values is None
    assert not group_advantages([1.0, None, 0.0]).is_zeroed


@pytest.mark.parametrize("rewards", [[], [math.nan, 1.0], [math.inf]])
def test_what_is_no_reward_is_refused(rewards):
    with pytest.raises(ValueError, match="finite rewards"):
        group_advantages(rewards)


def test_they_are_the_advantages_that_the_trainer_computes():
    groups = [[0.1, 0.9, 0.4, 0.4], [1.0, 0.0], [0.2, 0.2]]
    for ours, theirs in zip(groups, advantages(groups, "group", "population"), strict=True):
        assert group_advantages(ours).values == pytest.approx(theirs, rel=1e-5)
    for ours, theirs in zip(groups, advantages(groups, "none"), strict=True):
        assert group_advantages(ours, norm="mean-only").values == pytest.approx(theirs)
