"""Means, paired differences, intervals and votes: by hand, against scipy, against resampling, and their coverage."""

import math
import random

import pytest
from scipy import stats

from engine.statistics.groups import majority
from engine.statistics.paired import clustered_mean, clustered_share, paired_difference, student_t_quantile
from engine.tasks.registry import task_named
from tests.support.table import table


def close(value):
    return pytest.approx(value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("degrees", [0.3, 1, 4.5, 29, 1e6])  # the last is nearly normal
def test_quantile_agrees_with_scipy(degrees):
    for probability in (0.001, 0.5, 0.6, 0.975, 0.99999, 1 - 2**-30):  # both tails, the median, the usual one, far out
        expected = stats.t.ppf(probability, degrees)
        assert student_t_quantile(probability, degrees) == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("degrees", [1, 2.5, 9, 200, 1e5])
@pytest.mark.parametrize("probability", [1e-12, 1e-17, 1e-40])
def test_small_quantiles_keep_their_precision(degrees, probability):
    assert student_t_quantile(probability, degrees) == pytest.approx(stats.t.ppf(probability, degrees), rel=1e-9)


@pytest.mark.parametrize(("probability", "degrees"), [(0, 5), (1, 5), (math.nan, 5), (0.5, 0), (0.9, -1)])
def test_quantile_refuses_impossible_arguments(probability, degrees):
    with pytest.raises(ValueError, match=r"probability|degrees"):
        student_t_quantile(probability, degrees)


def test_mean_by_hand():
    """m = 3/6; the clusters' sums of deviations are 1, 0, -1; squared error = 3/2 * 2 / 36 = 1/12."""
    estimate = clustered_mean({"a": [1, 1], "b": [1, 0], "c": [0, 0]})
    assert estimate.value == close(0.5)
    assert estimate.standard_error == close(math.sqrt(1 / 12))
    assert (estimate.clusters, estimate.observations) == (3, 6)
    half = stats.t.ppf(0.975, 2) * math.sqrt(1 / 12)
    assert (estimate.low, estimate.high) == (close(0.5 - half), close(0.5 + half))


def test_mean_of_unequal_clusters_by_hand():
    """m = 2/4; the sums of deviations are 3 * 1/2 - 1 = 1/2 and -1/2; squared error = 2 * (2 * 1/4) / 16 = 1/16."""
    estimate = clustered_mean({"a": [1, 1, 0], "b": [0]})
    assert (estimate.value, estimate.standard_error) == (close(0.5), close(0.25))


def test_mean_of_single_observations_is_the_t_interval():
    values = [0.2, 0.9, 0.4, 0.7, 0.1]
    estimate = clustered_mean({str(number): [value] for number, value in enumerate(values)})
    low, high = stats.t.interval(0.95, 4, loc=sum(values) / 5, scale=stats.sem(values))
    assert (estimate.standard_error, estimate.low, estimate.high) == (close(stats.sem(values)), close(low), close(high))


def test_identical_samples_of_a_cluster_do_not_shrink_the_error():
    single = clustered_mean({"a": [1], "b": [0], "c": [1], "d": [1]})
    repeated = clustered_mean({"a": [1] * 5, "b": [0] * 5, "c": [1] * 5, "d": [1] * 5})
    assert (repeated.value, repeated.standard_error) == (close(single.value), close(single.standard_error))


def test_one_cluster_has_no_interval():
    estimate = clustered_mean({"a": [1, 0]})
    assert (estimate.value, estimate.standard_error, estimate.low, estimate.high) == (0.5, None, None, None)


@pytest.mark.parametrize(("right", "n"), [(0, 5), (1, 5), (5, 5), (0, 400), (7, 400), (399, 400)])
def test_the_interval_of_single_verdicts_is_scipys_wilson_interval(right, n):
    estimate = clustered_share({str(number): [float(number < right)] for number in range(n)})
    expected = stats.binomtest(right, n).proportion_ci(method="wilson")
    assert (estimate.low, estimate.high) == (close(expected.low), close(expected.high))
    assert estimate.value == close(right / n)


def test_more_samples_of_the_same_problems_narrow_a_share_at_most_as_independent_ones():
    alone = clustered_share({str(number): [float(number < 8)] for number in range(20)})
    same = clustered_share({str(number): [float(number < 8)] * 10 for number in range(20)})
    apart = clustered_share({str(number): [1.0] * 4 + [0.0] * 6 for number in range(20)})
    assert (same.low, same.high) == (close(alone.low), close(alone.high))
    expected = stats.binomtest(80, 200).proportion_ci(method="wilson")
    assert alone.high - alone.low > apart.high - apart.low > expected.high - expected.low


def test_intervals_of_shares_stay_in_range_and_cover():
    """Problems with their own rates, 4 samples each: at least 92 % of the 95 % intervals hold the mean rate."""
    rng = random.Random(11)
    held = 0
    for _ in range(400):
        rates = [rng.betavariate(8, 0.6) for _ in range(30)]
        verdicts = {str(n): [float(rng.random() < rate) for _ in range(4)] for n, rate in enumerate(rates)}
        estimate = clustered_share(verdicts)
        assert 0 <= estimate.low < estimate.high <= 1
        held += estimate.low <= 8 / 8.6 <= estimate.high
    assert held >= 0.92 * 400


@pytest.mark.parametrize("clusters", [{}, {"a": []}, {"a": [1], "b": []}])
def test_mean_refuses(clusters):
    with pytest.raises(ValueError, match="cluster"):
        clustered_mean(clusters)


def test_difference_is_scipys_paired_t_interval():
    rng = random.Random(3)
    before = {f"p{number}": [float(rng.random() < 0.4) for _ in range(2)] for number in range(30)}
    after = {name: [float(rng.random() < 0.6) for _ in range(2)] for name in before}
    estimate = paired_difference(after, before)
    of_clusters = [sum(after[name]) / 2 - sum(before[name]) / 2 for name in before]
    low, high = stats.t.interval(0.95, 29, loc=sum(of_clusters) / 30, scale=stats.sem(of_clusters))
    assert (estimate.low, estimate.high) == (close(low), close(high))
    assert estimate.observations == 120


def test_difference_by_hand_where_sides_differ_in_size():
    """Means 3/4 and 1/2. Shares after: (2 - 1.5)/4 and -1/8; before: 1/4 and -1/4; difference -1/8 and 1/8."""
    estimate = paired_difference({"a": [1, 1], "b": [1, 0]}, {"a": [1], "b": [0]})
    assert estimate.value == close(0.25)
    assert estimate.standard_error == close(math.sqrt(2 * 2 / 64))


def test_difference_uses_common_clusters_only():
    estimate = paired_difference({"a": [1], "b": [0], "x": [1]}, {"a": [0], "b": [0], "y": [1]})
    assert (estimate.value, estimate.clusters) == (close(0.5), 2)
    with pytest.raises(ValueError, match="no clusters"):
        paired_difference({"x": [1]}, {"y": [1]})


def test_difficulty_common_to_both_sides_cancels():
    before = {f"p{number}": [float(number % 2)] for number in range(40)}
    after = {name: [value] for name, [value] in before.items()} | {"p0": [1.0], "p2": [1.0]}
    paired = paired_difference(after, before)
    apart = math.hypot(clustered_mean(after).standard_error, clustered_mean(before).standard_error)
    assert paired.value == close(0.05)
    assert paired.standard_error < apart / 3


def drawn(rng, clusters, gain):
    """Two arms on problems of varying difficulty, with two and three samples each; the true gain is ``gain``."""
    before, after = {}, {}
    for number in range(clusters):
        chance = rng.choice((0.1, 0.4, 0.7)) if rng.random() < 0.8 else 0.0
        before[str(number)] = [float(rng.random() < chance) for _ in range(2)]
        after[str(number)] = [float(rng.random() < chance + gain) for _ in range(3)]
    return after, before


def test_errors_are_those_of_resampled_problems():
    rng = random.Random(5)
    after, before = drawn(rng, 60, 0.2)
    names = list(before)
    means, differences = [], []
    for _ in range(2000):
        chosen = rng.choices(names, k=len(names))
        drawn_after = [value for name in chosen for value in after[name]]
        drawn_before = [value for name in chosen for value in before[name]]
        means.append(sum(drawn_after) / len(drawn_after))
        differences.append(sum(drawn_after) / len(drawn_after) - sum(drawn_before) / len(drawn_before))
    # Resampling divides by G, the estimate by G - 1; the tolerance covers the noise of 2000 draws (1.6 %).
    factor = math.sqrt(60 / 59)
    assert clustered_mean(after).standard_error == pytest.approx(stats.tstd(means) * factor, rel=0.06)
    assert paired_difference(after, before).standard_error == pytest.approx(stats.tstd(differences) * factor, rel=0.06)


def test_coverage():
    """The 95 % interval contains the true gain in 930 to 970 of 1000 experiments (3 standard errors)."""
    for gain in (0.0, 0.2):
        rng = random.Random(f"coverage {gain}")
        held = 0
        for _ in range(1000):
            estimate = paired_difference(*drawn(rng, 25, gain))
            held += estimate.low <= gain <= estimate.high
        assert 930 <= held <= 970


@table(
    ("answers", "place"),
    [
        (["4", "5", "5"], 1),
        (["4", "5", "6"], None),
        (["5 ", "4", " 5"], 0),
        (["4", "5", "5", "4"], None),
        ([None, "7", None], 1),
        ([None, None, None, "7"], 3),
        ([None, None], None),
        ([], None),
    ],
)
def test_majority(answers, place):
    assert next(iter(majority(answers)), None) == place


def test_majority_counts_equal_answers_not_equal_texts():
    answers = ["15 m/s", "14 m/s", "15 m/s", "14.0 m/s", None, "1400 cm/s"]
    assert majority(answers) == [0, 2]
    assert majority(answers, task_named("physics").same_answer) == [1, 3, 5]
    assert majority(["1/2", "**", "0.5", "**", "2/4"], task_named("math").same_answer) == [0, 2, 4]
