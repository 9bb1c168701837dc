import pytest

from engine.tasks.traffic.policies import max_pressure
from engine.tasks.traffic.reply import read_reply
from engine.tasks.traffic.rewards import TrafficRewardSettings, better_branch, regret, traffic_reward
from engine.tasks.traffic.training import pay_of
from tests.engine.tasks.traffic.support import observation, row

YES, NO = read_reply('{"extend": "yes"}'), read_reply('{"extend": "no"}')
PARTIAL, INVALID = read_reply("so: {extend: yes}"), read_reply("perhaps")


@pytest.mark.parametrize(
    ("delta", "scale", "reward"),
    [
        (-1, 10, 0.0997),
        (-1, 3, 0.3215),
        (-3, 10, 0.2913),
        (-3, 3, 0.7616),
        (5, 10, -0.4621),
        (5, 3, -0.9311),
        (0, 3, 0.0),
    ],
)
def test_the_absolute_reward_is_the_tanh_of_the_queue_change(delta, scale, reward):
    settings = TrafficRewardSettings(reward_scale=scale)
    assert traffic_reward(True, row(before=7, extend=7 + delta), settings) == pytest.approx(reward, abs=1e-4)


def test_the_relative_reward_is_zero_for_the_decision_of_max_pressure():
    settings = TrafficRewardSettings(use_relative_baseline=True, reward_scale=3)
    entry = row(extend=5, switch=9, queues=(3.5, 1.0, 0.0))  # Max-Pressure extends
    assert traffic_reward(True, entry, settings) == 0
    assert traffic_reward(False, entry, settings) == pytest.approx(-0.8701, abs=1e-4)  # tanh(-4 / 3)


@pytest.mark.parametrize(
    ("reply", "total"),
    [
        (YES, 0.5 * 1.0 + 10 * 0.1974),
        (NO, 0.5 - 10 * 0.1974),
        (PARTIAL, 0.5 * -0.5 + 10 * 0.1974),
        (INVALID, 0.5 * -10),
    ],
)
def test_the_total_is_the_weighted_sum_and_an_invalid_reply_gets_no_traffic_reward(reply, total):
    settings = TrafficRewardSettings(invalid=-10.0, format_weight=0.5, tsc_weight=10.0)
    assert pay_of(reply, row(before=7, extend=5, switch=9), settings).total == pytest.approx(total, abs=1e-3)


def test_format_rewards_must_be_in_order():
    with pytest.raises(ValueError, match="strict >= partial >= invalid"):
        TrafficRewardSettings(partial=2.0)


@pytest.mark.parametrize(
    ("seen", "extends"),
    [
        ({"queues": (3.5, 1.0, 0.0)}, True),
        ({"queues": (1.0, 1.0, 0.0)}, True),
        ({"queues": (0.5, 1.0, 0.0)}, False),
        ({"queues": (3.5, 1.0, 0.0), "can_extend": False}, False),
        ({"queues": (0.0, 9.0, 0.0), "elapsed": 10, "limits": (11, 58)}, True),
    ],
)
def test_max_pressure_compares_queues_within_the_limits_of_the_green(seen, extends):
    assert max_pressure(observation(**seen)) is extends


def test_the_default_metric_is_the_mean_over_the_horizon():
    entry = row(before=7, extend=5, switch=5)  # equal at the end: 100 vehicle seconds in 20 s each
    entry = entry.model_copy(
        update={
            "branches": entry.branches.model_copy(
                update={"switch": entry.branches.switch.model_copy(update={"queue_seconds": 160})}
            )
        }
    )
    assert better_branch(entry) is True
    assert regret(False, entry) == 3
    assert traffic_reward(False, entry, TrafficRewardSettings(reward_scale=1)) == pytest.approx(
        -0.7616, abs=1e-4
    )  # 8 - 7


def test_the_better_branch_and_the_regret():
    assert better_branch(row(extend=5, switch=9)) is True
    assert better_branch(row(extend=5, switch=5)) is None
    assert regret(False, row(extend=5, switch=9)) == 4
    assert regret(True, row(extend=5, switch=9)) == 0


def test_an_extension_beyond_the_maximum_counts_as_a_switch():
    entry = row(extend=0, switch=9, elapsed=58, can_extend=False)
    assert traffic_reward(True, entry, TrafficRewardSettings()) == traffic_reward(False, entry, TrafficRewardSettings())
