"""Advantages by hand."""

import math

import pytest

from engine.statistics.groups import group_stats
from grpo_training.rl_math.advantages import group_advantages


def test_the_vector_of_the_format():
    assert group_advantages([1.0, 0.0, 0.0, 1.0]) == pytest.approx(
        (0.999998, -0.999998, -0.999998, 0.999998), abs=1e-11
    )


def test_hand_computed():
    # mean 0.5, deviations 0.5, -0.25, -0.25; variance 0.125; std sqrt(1/8)
    assert group_advantages([1.0, 0.25, 0.25]) == pytest.approx(
        (math.sqrt(2), -math.sqrt(2) / 2, -math.sqrt(2) / 2), abs=1e-5
    )


@pytest.mark.parametrize("rewards", [[0.3], [0.3, 0.3, 0.3], [0.1 + 0.2, 0.3], [0.0]])
def test_equal_rewards_have_no_advantage(rewards):
    assert group_advantages(rewards) == [0.0] * len(rewards)


def test_a_group_with_a_missing_reward_has_none():
    assert group_advantages([1.0, None, 0.0]) is None


@pytest.mark.parametrize("rewards", [[], [math.nan, 1.0], [math.inf]])
def test_what_is_no_reward_is_refused(rewards):
    with pytest.raises(ValueError, match="finite|at least one reward"):
        group_advantages(rewards)


def test_they_are_the_advantages_of_learning():
    groups = [[0.1, 0.9, 0.4, 0.4], [1.0, 0.0], [0.2, 0.2]]
    for ours, theirs in zip(groups, [group_stats(group, tau=0.0).advantages for group in groups], strict=True):
        assert group_advantages(ours) == pytest.approx(theirs, rel=1e-5)
