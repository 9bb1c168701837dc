import random

import pytest

from engine.statistics.paired import clustered_mean, clustered_share
from grpo_training.view.pages.measures import moving_mean, positions, window_for


def test_the_interval_is_that_of_a_mean_of_clusters():
    values = [random.Random(3).random() for _ in range(40)]
    window, last = 12, 30
    expected = clustered_mean({str(index): [value] for index, value in enumerate(values[last - 11 : last + 1])})
    curve = moving_mean(values, window, [last])
    assert curve["values"] == [pytest.approx(expected.value)]
    assert curve["low"] == [pytest.approx(expected.low)]
    assert curve["high"] == [pytest.approx(expected.high)]


@pytest.mark.parametrize("draw", [lambda rng: rng.random(), lambda rng: float(rng.random() < 0.3), lambda rng: 1.0])
def test_the_interval_of_shares_is_that_of_shares_of_clusters(draw):
    rng = random.Random(5)
    values = [draw(rng) for _ in range(20)]
    expected = clustered_share({str(index): [value] for index, value in enumerate(values[8:])})
    curve = moving_mean(values, 12, [19], is_share=True)
    assert curve["low"] == [pytest.approx(expected.low)]
    assert curve["high"] == [pytest.approx(expected.high)]
    assert curve["low"][0] < curve["values"][0]


def test_a_window_without_values_has_no_mean_and_one_value_has_no_interval():
    curve = moving_mean([None, None, 0.5, 1.0], 2, [0, 1, 2, 3])
    assert curve["values"] == [None, None, 0.5, 0.75]
    assert curve["low"][:3] == curve["high"][:3] == [None, None, None]
    assert curve["low"][3] == pytest.approx(0.75 - 12.706 * 0.25, abs=1e-3)  # t with one degree of freedom


def test_equal_values_have_a_point_as_interval():
    curve = moving_mean([0.1] * 1000, 200, [999])
    assert curve["values"] == [pytest.approx(0.1)]
    assert curve["high"][0] - curve["low"][0] < 1e-6


@pytest.mark.parametrize(("count", "expected"), [(0, []), (3, [0, 1, 2]), (10, [1, 3, 5, 7, 9])])
def test_positions_are_even_and_end_with_the_last(count, expected):
    assert positions(count, 5) == expected


@pytest.mark.parametrize(("count", "window"), [(0, 5), (60, 6), (12_500, 200)])
def test_the_window_grows_with_the_run(count, window):
    assert window_for(count) == window
