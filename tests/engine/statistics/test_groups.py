import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.statistics.groups import DeadRewardWatch, combine_rewards, group_stats
from engine.storage.stored_records import StoredGroups

GENERATOR = {"r_ans": 0.5, "r_logic": 0.25, "r_graph": 0.25}
CRITIC = dict.fromkeys(("r_ans", "r_logic", "r_graph", "r_fusion"), 0.25)


def test_hand_computed_statistics():
    # mean (0 + 0.5 + 1) / 3 = 0.5; variance (0.25 + 0 + 0.25) / 3 = 1/6
    stats = group_stats([0.0, 0.5, 1.0], tau=0.05)
    assert stats.mean == 0.5
    assert stats.std == pytest.approx(math.sqrt(1 / 6), abs=1e-15)
    assert stats.advantages == pytest.approx([-math.sqrt(1.5), 0, math.sqrt(1.5)])
    assert stats.triggered


def test_the_trigger_is_strict_and_ignores_rounding_errors():
    # the population std of (a, b) is |a - b| / 2; in floating point that of (0.3, 0.4) is above 0.05
    assert group_stats([0.3, 0.4], tau=1).std > 0.05
    assert not group_stats([0.3, 0.4], tau=0.05).triggered
    assert group_stats([0.4, 0.5001], tau=0.05).triggered
    assert not group_stats([0.3, 0.3], tau=0.0).triggered


@pytest.mark.parametrize("rewards", [[0.3, 0.1 + 0.2, 0.3], [0.1] * 7, [1.0], [0.7 + 1e-12, 0.7]])
def test_equal_rewards_have_a_std_of_exactly_zero_and_no_advantage(rewards):
    stats = group_stats(rewards, tau=0.0)
    assert stats.std == 0.0
    assert stats.advantages == [0.0] * len(rewards)
    assert not stats.triggered


@given(st.lists(st.floats(0, 1), min_size=1, max_size=16))
def test_statistics_agree_with_numpy(rewards):
    stats = group_stats(rewards, tau=0.05)
    assert stats.mean == pytest.approx(np.mean(rewards), abs=2e-9)
    assert stats.std == pytest.approx(np.std(rewards), abs=2e-9)
    if stats.std:
        assert np.mean(stats.advantages) == pytest.approx(0, abs=1e-6)
        assert np.std(stats.advantages) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(("rewards", "tau"), [([], 0.05), ([math.nan], 0.05), ([0.5, math.inf], 0.05), ([0.5], -1)])
def test_invalid_rewards_are_an_error(rewards, tau):
    with pytest.raises(ValueError, match="reward|tau"):
        group_stats(rewards, tau)


def test_recorded_groups_against_numpy(recorded):
    flat = triggered = 0
    for name in ("generator_1_rollouts", "generator_2_rollouts"):
        for group in StoredGroups(recorded[name]).values():
            rewards = [rollout.r_total for rollout in group.rollouts]
            stats = group_stats(rewards, tau=0.05)
            assert stats.std == pytest.approx(np.std(rewards), abs=1e-9)
            assert stats.triggered == bool(np.std(rewards) > 0.05)
            flat += stats.std == 0
            triggered += stats.triggered
    assert 0 < triggered < flat


def test_hand_computed_total_rewards():
    assert combine_rewards({"r_ans": 0, "r_logic": 0.75, "r_graph": 0.80}, GENERATOR) == pytest.approx(0.3875)
    critic = {"r_ans": 1.0, "r_logic": 0.85, "r_graph": 0.90, "r_fusion": 0.75}
    assert combine_rewards(critic, CRITIC) == pytest.approx(0.875)


def test_weights_are_renormalised_over_the_measured_components():
    # (0.5 * 1 + 0.25 * 0.4) / 0.75 = 0.8
    assert combine_rewards({"r_ans": 1.0, "r_logic": None, "r_graph": 0.4}, GENERATOR) == pytest.approx(0.8)
    assert combine_rewards({"r_ans": 1.0, "r_graph": 0.4}, GENERATOR) == pytest.approx(0.8)


def test_without_a_measured_component_the_total_is_none():
    assert combine_rewards({"r_ans": None}, GENERATOR) is None
    assert combine_rewards({}, GENERATOR) is None
    assert combine_rewards({"judge": 0.5}, {"judge": 0.0}) is None


@pytest.mark.parametrize(
    ("components", "weights"),
    [({"r_new": 1.0}, GENERATOR), ({"a": math.nan}, {"a": 1}), ({"a": -0.1}, {"a": 1}), ({"a": 1}, {"a": -1})],
)
def test_an_invalid_component_is_an_error(components, weights):
    with pytest.raises(ValueError, match="weight"):
        combine_rewards(components, weights)


def test_the_alarm_is_raised_once_after_n_constant_groups():
    watch = DeadRewardWatch(window=3)
    groups = [{"r_ans": [0, 1, 0], "r_logic": [0.5, 0.5, 0.5]}] * 5
    alarms = [watch.feed(group) for group in groups]
    assert [len(alarm) for alarm in alarms] == [0, 0, 1, 0, 0]
    (alarm,) = alarms[2]
    assert (alarm.component, alarm.value, alarm.groups, alarm.rollouts) == ("r_logic", 0.5, 3, 9)
    assert alarm.reason.startswith("r_logic was 0.5 in all 9 rollouts of the last 3 groups: ")


def test_a_second_alarm_requires_variance_in_between():
    watch = DeadRewardWatch(window=2)
    values = [[1], [1], [1], [0], [0], [0]]
    assert [len(watch.feed({"r": value})) for value in values] == [0, 1, 0, 0, 1, 0]


def test_constant_groups_with_different_values_raise_no_alarm():
    watch = DeadRewardWatch(window=2)
    assert not any(watch.feed({"r_ans": [turn % 2] * 3}) for turn in range(10))


def test_groups_without_a_measurement_do_not_count():
    watch = DeadRewardWatch(window=2)
    assert watch.feed({"r": [None, None]}) == []
    assert watch.feed({"r": [0.8, None]}) == []
    assert watch.feed({"r": [None, None]}) == []
    assert [alarm.rollouts for alarm in watch.feed({"r": [0.8, 0.8]})] == [3]


@pytest.mark.parametrize(("value", "word"), [(0.0, "too hard"), (1.0, "too easy"), (0.8, "no training signal")])
def test_the_alarm_names_the_likely_cause(value, word):
    watch = DeadRewardWatch(window=2)
    watch.feed({"r": [value]})
    assert word in watch.feed({"r": [value]})[0].reason


def test_the_summary_covers_the_whole_run():
    watch = DeadRewardWatch(window=2)
    for value in ([0.2, 0.4], [0.5], [0.5]):
        watch.feed({"r": value, "never": [None]})
    (row,) = watch.summary()
    assert (row.component, row.groups, row.rollouts, row.low, row.high, row.alarms) == ("r", 3, 4, 0.2, 0.5, 1)
    assert row.dead is not None
    watch.feed({"r": [0.1]})
    assert watch.summary()[0].dead is None


def test_a_window_of_one_group_is_an_error():
    with pytest.raises(ValueError, match="window"):
        DeadRewardWatch(window=1)
