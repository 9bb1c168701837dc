"""The group-sequential test: its bounds against scipy, and its errors and power in simulated gates."""

import math
import random

import numpy as np
import pytest
from scipy import stats

from engine.statistics.group_sequential import (
    LOOKS,
    GroupSequentialTest,
    alpha_of_test,
    boundary_constant,
    problems_needed,
)


@pytest.mark.parametrize(("alpha", "constant"), [(0.05, 2.024), (0.025, 2.289), (0.0167, 2.434)])
def test_the_constant_is_that_of_the_four_dimensional_normal(alpha, constant):
    assert boundary_constant(alpha) == pytest.approx(constant, abs=6e-4)
    covariance = [[min(row, column) for column in range(1, LOOKS + 1)] for row in range(1, LOOKS + 1)]
    bound = [boundary_constant(alpha) * math.sqrt(LOOKS)] * LOOKS
    inside = stats.multivariate_normal(cov=np.array(covariance, float)).cdf(
        bound, lower_limit=[-limit for limit in bound]
    )
    assert inside == pytest.approx(1 - alpha, abs=2e-5)


def test_a_test_looks_four_times_and_stops_at_the_first_bound():
    gate = GroupSequentialTest(problems=10, samples=4)
    assert gate.looks == (3, 5, 8, 10)
    assert gate.finding([0.5] * 2) is None
    first = gate.finding([0.25, 0.5, 0.75])
    # variance: (0.0625 + 0 + 0.0625 + 4 * 0.25 / 4) / (2 + 4) = 0.0625; the first bound is a t quantile with 2 degrees
    assert first.variance == pytest.approx(0.0625)
    tail = stats.norm.sf(boundary_constant(0.05) * 2)
    half = stats.t.isf(tail, 2) * math.sqrt(0.0625 / 3)
    assert (first.mean, first.low, first.high) == pytest.approx((0.5, 0.5 - half, 0.5 + half))
    assert first.verdict is None
    assert (gate.finding([0.5] * 10).verdict, gate.finding([0.5] * 10).problems) == ("better", 5)
    assert gate.finding([-0.5] * 10).verdict == "worse"
    assert gate.finding([0.0] * 10).verdict == "not_proven"
    later = [0.5] * 5 + [-1.0] * 5
    assert gate.finding(later) == gate.finding(later[:5])


def test_a_test_that_does_not_stop_has_the_result_of_its_last_look():
    gate = GroupSequentialTest(problems=40, samples=8)
    differences = [0.25, 0.5] * 20
    stopped, full = gate.finding(differences), gate.finding(differences, stops=False)
    assert (stopped.verdict, stopped.problems, full.verdict, full.problems) == ("better", 10, "better", 40)
    # 40 squares of 0.125, and 4 observations of variance 0.25 / 8
    variance = (40 * 0.125**2 + 4 * 0.25 / 8) / (39 + 4)
    half = stats.t.isf(stats.norm.sf(boundary_constant(0.05)), 39) * math.sqrt(variance / 40)
    assert (full.mean, full.low, full.high) == pytest.approx((0.375, 0.375 - half, 0.375 + half))
    assert full.high - full.low < (stopped.high - stopped.low) / 4
    assert gate.finding([0.25, 0.5] * 5 + [-1.0, 1.0] * 15, stops=False).verdict == "not_proven"


@pytest.mark.parametrize(("problems", "samples"), [(24, 8), (60, 4)])
def test_a_test_that_went_on_after_a_verdict_is_wrong_no_more_often(problems, samples):
    """A person who sees the early result, goes on, and may take either of both for the verdict."""
    rng, gate, gates, wrong = random.Random(problems), GroupSequentialTest(problems, samples), 1500, 0
    for _ in range(gates):
        shares = [rng.uniform(0.1, 0.9) for _ in range(problems)]
        arm, other = ([sum(rng.random() < share for _ in range(samples)) / samples for share in shares] for _ in "ab")
        differences = [a - b for a, b in zip(arm, other, strict=True)]
        findings = (gate.finding(differences), gate.finding(differences, stops=False))
        wrong += any(finding.verdict != "not_proven" for finding in findings)
    assert wrong / gates <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / gates)


def adopted_and_rejected(problems, samples, effect, gates=1500):
    """The shares of simulated gates that find the arm better and worse; base rates 0.3 to 0.5 with a spread of 0.25."""
    rng, gate = random.Random(problems * samples), GroupSequentialTest(problems, samples)
    verdicts = []
    for _ in range(gates):
        differences = []
        for _ in range(problems):
            base = min(0.98, max(0.02, rng.uniform(0.3, 0.5) + rng.gauss(0, 0.25)))
            shares = (min(0.98, max(0.02, base + effect)), base)
            arm, other = (sum(rng.random() < share for _ in range(samples)) / samples for share in shares)
            differences.append(arm - other)
        verdicts.append(gate.finding(differences).verdict)
    return verdicts.count("better") / gates, verdicts.count("worse") / gates


@pytest.mark.parametrize(
    ("problems", "samples", "effect", "adopted"),
    [(20, 8, 0.15, 0.83), (40, 4, 0.10, 0.53), (40, 8, 0.10, 0.84), (100, 4, 0.10, 0.91), (100, 4, 0.15, 1.0)],
)
def test_an_effect_is_found_as_often_as_the_design_says(problems, samples, effect, adopted):
    better, worse = adopted_and_rejected(problems, samples, effect)
    assert better == pytest.approx(adopted, abs=0.06)
    assert worse < 0.005


@pytest.mark.parametrize(("problems", "samples"), [(20, 8), (40, 4), (100, 2)])
def test_without_an_effect_a_verdict_is_rare(problems, samples):
    better, worse = adopted_and_rejected(problems, samples, 0.0)
    assert better < 0.04
    assert worse < 0.04


def test_several_tests_on_the_same_problems_share_one_alpha():
    assert alpha_of_test(1) == pytest.approx(0.0304, abs=1e-4)
    assert sum(map(alpha_of_test, range(1, 20_000))) == pytest.approx(0.05, abs=1e-5)


def test_the_problems_that_an_effect_needs():
    # (2.0243 + 0.8416)^2 * 0.125 / 0.01 = 102.7
    assert problems_needed(0.125) == 105
    assert problems_needed(0.0001) == 2 * LOOKS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((7, 4), "at least 8 problems"), ((20, 0), "at least one sample"), ((20, 4, 1.0), "alpha must be between")],
)
def test_a_test_that_cannot_be_run_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        GroupSequentialTest(*arguments)


def test_answers_that_are_alike_give_no_more_verdicts():
    """At temperature 0 the samples of a problem are one: the differences vary eight times as much as counted."""
    rng, gate = random.Random(8), GroupSequentialTest(problems=8, samples=8)
    verdicts = [
        gate.finding([float(rng.randint(0, 1) - rng.randint(0, 1)) for _ in range(8)]).verdict for _ in range(3000)
    ]
    assert verdicts.count("better") / len(verdicts) < 0.04
    assert verdicts.count("worse") / len(verdicts) < 0.04


@pytest.mark.parametrize("number", [20, 60, 1000])
def test_a_late_test_on_the_same_problems_still_has_a_bound(number):
    alpha = alpha_of_test(number) / 3
    first = GroupSequentialTest(40, 8, alpha).finding([0.25, 0.5] * 5)
    half = stats.t.isf(stats.norm.sf(2 * boundary_constant(alpha)), 9) * math.sqrt(first.variance / 10)
    assert first.high - first.mean == pytest.approx(half)
