"""pass@k against published values, exact fractions, the product formula and an enumeration."""

import itertools
import math
import random
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from engine.statistics.pass_at_k import difference_in_pass_at_k, mean_pass_at_k, pass_at_k
from tests.support.table import table


def exact(n, c, k):
    """In integer arithmetic."""
    return 1 - Fraction(math.comb(n - c, k), math.comb(n, k))


@table(
    ("n", "c", "k", "expected"),
    [
        (5, 0, 1, 0.0),
        (5, 2, 1, 0.4),
        (10, 3, 5, 0.916667),  # 1 - C(7, 5) / C(10, 5) = 1 - 21 / 252
        (4, 4, 2, 1.0),
        (3, 1, 5, None),
        (0, 0, 1, None),
        (1, 1, 1, 1.0),
        (5, 2, 4, 1.0),  # only three samples are wrong, so every choice of four has a right one
        (6, 1, 3, 0.5),
    ],
)
def test_vectors(n, c, k, expected):
    value = pass_at_k(n, c, k)
    assert value is None if expected is None else value == pytest.approx(expected, abs=5e-7)


def test_no_negative_zero():
    assert math.copysign(1, pass_at_k(5, 0, 1)) == 1


@given(st.integers(1, 60), st.data())
def test_equals_the_binomials(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    assert pass_at_k(n, c, k) == pytest.approx(float(exact(n, c, k)), rel=1e-12, abs=0)


def test_equals_the_product_formula():
    numpy = pytest.importorskip("numpy")
    rng = random.Random(1)
    for _ in range(500):
        n = rng.randint(1, 300)
        c, k = rng.randint(0, n), rng.randint(1, n)
        product = 1.0 if n - c < k else 1.0 - numpy.prod(1.0 - k / numpy.arange(n - c + 1, n + 1))
        assert pass_at_k(n, c, k) == pytest.approx(product, rel=1e-9, abs=1e-12)


def test_equals_drawing_all_choices():
    right = [True, True, False, False, False, True]
    for k in range(1, 7):
        choices = list(itertools.combinations(right, k))
        assert pass_at_k(6, 3, k) == pytest.approx(sum(map(any, choices)) / len(choices))


def test_large_counts():
    began = time.perf_counter()
    assert pass_at_k(10_000, 1, 100) == pytest.approx(0.01, rel=1e-12)
    assert pass_at_k(10**7, 1, 1) == pytest.approx(1e-7, rel=1e-12)  # 1 - (1 - 1e-7) would keep nine digits
    assert pass_at_k(10**6, 5 * 10**5, 10) == pytest.approx(float(exact(10**6, 5 * 10**5, 10)), rel=1e-12)
    assert pass_at_k(10**5, 3 * 10**4, 5 * 10**4) == 1.0
    assert time.perf_counter() - began < 5


def test_unbiased():
    """Its expectation over n = 6 samples that are each correct with probability 0.3 is 1 - 0.7^k."""
    for k in range(1, 7):
        mean = sum(math.comb(6, c) * 0.3**c * 0.7 ** (6 - c) * pass_at_k(6, c, k) for c in range(7))
        assert mean == pytest.approx(1 - 0.7**k)


@pytest.mark.parametrize(("n", "c", "k"), [(5, 6, 1), (5, -1, 1), (-1, 0, 1), (5, 2, 0)])
def test_impossible_counts_are_refused(n, c, k):
    with pytest.raises(ValueError, match="expected 0 <= c <= n"):
        pass_at_k(n, c, k)


def test_mean_over_problems():
    """pass@1 is 0.2, 0.6 and 1: mean 0.6, standard error 0.4 / sqrt(3).

    The squared deviations sum to 2 * (0.4 / 3)^2, so the three problems are worth 0.24 / 0.0356 = 6.75 samples, which
    the correction (2.1448 / 4.3027)^2 lowers below 3: the interval is Wilson's for 1.8 of 3.
    """
    estimate = mean_pass_at_k({"a": (5, 1), "b": (5, 3), "c": (5, 5)}, 1)
    assert (estimate.value, estimate.standard_error) == (pytest.approx(0.6), pytest.approx(0.4 / math.sqrt(3)))
    z = 1.959964
    centre, half = 0.6 + z * z / 6, z * math.sqrt(0.24 / 3 + z * z / 36)
    assert estimate.low == pytest.approx((centre - half) / (1 + z * z / 3))
    assert estimate.high == pytest.approx((centre + half) / (1 + z * z / 3))
    assert estimate.clusters == 3


@pytest.mark.parametrize("right", [0, 10])
def test_where_all_samples_agree_the_interval_is_that_of_one_sample_a_problem(right):
    estimate = mean_pass_at_k({f"p{number}": (10, right) for number in range(20)}, 5)
    of_scipy = stats.binomtest(2 * right, 20).proportion_ci(method="wilson")
    assert (estimate.low, estimate.high) == (pytest.approx(of_scipy.low), pytest.approx(of_scipy.high))
    assert estimate.high - estimate.low > 0.1


def test_each_problem_counts_once():
    assert mean_pass_at_k({"a": (100, 0), "b": (2, 2)}, 1).value == 0.5


def test_one_problem_with_too_few_samples_leaves_k_out():
    counts = {"a": (5, 5), "b": (3, 3)}
    assert mean_pass_at_k(counts, 4) is None
    assert mean_pass_at_k(counts, 3).value == 1.0
    assert mean_pass_at_k({}, 1) is None


def test_paired_difference_of_the_common_problems():
    """0.4 - 0.2 and 1.0 - 0.4 differ by 0.4 in the mean, +- t of one degree 12.706205 * 0.2."""
    after = {"a": (5, 2), "b": (5, 5), "only after": (1, 0)}
    before = {"b": (5, 2), "a": (5, 1), "only before": (1, 1)}
    difference = difference_in_pass_at_k(after, before, 1)
    assert difference.value == pytest.approx(0.4)
    assert difference.high == pytest.approx(0.4 + 12.706205 * 0.2)
    assert difference.clusters == 2
    assert difference_in_pass_at_k(after, before, 5).value == pytest.approx(0.0)
    assert difference_in_pass_at_k(after, before, 6) is None
    assert difference_in_pass_at_k({"a": (1, 1)}, {"b": (1, 1)}, 1) is None
