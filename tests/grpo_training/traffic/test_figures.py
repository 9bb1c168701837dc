"""Totals, differences, intervals and the curves of simulations, compared with values worked out by hand."""

import json

import pytest

from engine.tasks.traffic.simulation.closed_loop import ClosedLoopResult
from grpo_training.traffic.evaluation.figures import TRAFFIC_FIGURES, by_policy, by_scenario, over_scenarios
from grpo_training.traffic.evaluation.queue_curves import queue_curves


def run(scenario, policy, seed, waiting, curve=((10.0, 1), (20.0, 3))):
    return ClosedLoopResult(scenario, policy, seed, dict.fromkeys(TRAFFIC_FIGURES, float(waiting)), list(curve))


RUNS = [
    *(run("a", "max-pressure", seed, waiting) for seed, waiting in ((1, 10), (2, 12), (3, 14))),
    *(run("b", "max-pressure", seed, waiting) for seed, waiting in ((1, 20), (2, 26), (3, 20))),
    *(run("a", "m", seed, waiting) for seed, waiting in ((1, 9), (2, 12), (3, 12))),
    *(run("b", "m", seed, waiting) for seed, waiting in ((1, 17), (2, 24), (3, 20))),
]
T2, T1 = 4.302653, 12.706205  # quantiles 0.975 of Student's t with 2 and 1 degrees of freedom


def test_an_interval_of_the_total_is_over_the_seeds():
    """Means over the scenarios by seed: 15, 19, 17; differences of m: -2, -1, -1."""
    figures = by_policy(RUNS)
    total = figures["max-pressure"].means["mean_waiting_s"]
    assert (total.value, total.clusters) == (17.0, 3)
    assert total.high - total.value == pytest.approx(T2 * 2 / 3**0.5)
    difference = figures["m"].differences["mean_waiting_s"]
    assert difference.value == pytest.approx(-4 / 3)
    assert difference.high - difference.value == pytest.approx(T2 * (1 / 3) ** 0.5 / 3**0.5)
    assert figures["max-pressure"].differences == {}


def test_an_interval_over_the_scenarios_is_wider():
    """Differences of m by scenario: -1 and -5/3."""
    difference = over_scenarios(RUNS)["m"].differences["mean_waiting_s"]
    assert (difference.value, difference.clusters) == (pytest.approx(-4 / 3), 2)
    assert difference.high - difference.value == pytest.approx(T1 / 3)


def test_figures_by_scenario_are_over_its_own_seeds():
    own = by_scenario(RUNS)["b"]["m"].differences["switches"]
    assert own.value == pytest.approx(-5 / 3)
    assert own.clusters == 3


def test_a_difference_is_over_the_simulations_that_both_policies_have():
    """Without the seed 2 of scenario b of m: differences -1, 0, -2 in a and -3, 0 in b."""
    runs = [each for each in RUNS if (each.scenario, each.policy, each.seed) != ("b", "m", 2)]
    assert by_policy(runs)["m"].differences["mean_waiting_s"].value == pytest.approx(-6 / 5)


def test_one_seed_has_no_interval():
    alone = by_policy([each for each in RUNS if each.seed == 1])["m"].means["mean_waiting_s"]
    assert (alone.value, alone.low, alone.high) == (13.0, None, None)


def test_the_curves_name_scenarios_and_policies_and_show_the_mean_over_the_seeds():
    runs = [run("a", "m<script>", 1, 1), run("a", "m<script>", 2, 1, ((10.0, 3), (20.0, 3))), *RUNS]
    page = queue_curves(runs)
    assert "m<script>" not in page
    charts = json.loads(page.partition('id="charts" data-live>')[2].partition("</script>")[0])
    assert [(name, chart["x"]) for name, chart in charts.items()] == [("a", [10, 20]), ("b", [10, 20])]
    assert {one["label"]: one["values"] for one in charts["a"]["series"]} == {
        "m<script>": [2, 3],
        "max-pressure": [1, 3],
        "m": [1, 3],
    }
    assert all(f"<figcaption>{name}</figcaption>" in page for name in "ab")
