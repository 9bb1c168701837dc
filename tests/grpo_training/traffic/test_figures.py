"""Means, differences and intervals of simulations, compared with values worked out by hand."""

import pytest

from engine.tasks.traffic.simulation.closed_loop import ClosedLoopResult
from grpo_training.traffic.evaluation import FIGURES, by_policy


def run(scenario, policy, seed, waiting):
    return ClosedLoopResult(scenario, policy, seed, dict.fromkeys(FIGURES, float(waiting)))


RUNS = [
    *(run("a", "max-pressure", seed, waiting) for seed, waiting in ((1, 10), (2, 12), (3, 14))),
    *(run("b", "max-pressure", seed, waiting) for seed, waiting in ((1, 20), (2, 26), (3, 20))),
    *(run("a", "m", seed, waiting) for seed, waiting in ((1, 9), (2, 12), (3, 12))),
    *(run("b", "m", seed, waiting) for seed, waiting in ((1, 17), (2, 24), (3, 20))),
]
T2 = 4.302653  # quantile 0.975 of Student's t with 2 degrees of freedom


def test_an_interval_of_the_total_is_over_the_seeds():
    """Means over the scenarios by seed: 15, 19, 17; differences of m: -2, -1, -1."""
    figures = by_policy(RUNS)
    total = figures["max-pressure"].means["mean_waiting_s"]
    assert (total.value, total.clusters) == (17.0, 3)
    assert total.high - total.value == pytest.approx(T2 * 2 / 3**0.5)
    difference = figures["m"].difference_to_max_pressure["mean_waiting_s"]
    assert difference.value == pytest.approx(-4 / 3)
    assert difference.high - difference.value == pytest.approx(T2 * (1 / 3) ** 0.5 / 3**0.5)
    assert figures["max-pressure"].difference_to_max_pressure == {}


def test_a_difference_is_over_the_simulations_that_both_policies_have():
    """Without the seed 2 of scenario b of m: differences -1, 0, -2 in a and -3, 0 in b."""
    runs = [run for run in RUNS if (run.scenario, run.policy, run.seed) != ("b", "m", 2)]
    assert by_policy(runs)["m"].difference_to_max_pressure["mean_waiting_s"].value == pytest.approx(-6 / 5)


def test_one_seed_has_no_interval():
    alone = by_policy([run for run in RUNS if run.seed == 1])["m"].means["mean_waiting_s"]
    assert (alone.value, alone.low, alone.high) == (13.0, None, None)
