"""Comparing ways to answer the same problems: means, paired differences and their intervals, by cluster.

Several samples of one problem are alike, so the problem, not the sample, is what was drawn at random. The
errors here are the cluster-robust ones (Liang and Zeger 1986; for evaluations of models: Miller 2024, "Adding
Error Bars to Evals"), with the correction G / (G - 1) for few clusters and a t interval of G - 1 degrees.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

Clusters = Mapping[str, Sequence[float]]
"""Cluster -> its observations, at least one each."""

_MOST_TERMS = 10_000
_TINY = 1e-30
_PRECISION = 1e-15


@dataclass(frozen=True)
class Estimate:
    """A mean or a difference of means with its interval.

    Args:
        value: the estimate.
        standard_error: its cluster-robust standard error; None for one cluster, which shows no spread. It is 0
            where all clusters agree; the interval is then a point, whatever their number.
        low, high: the ends of the interval; None where there is no error.
        clusters: the number of clusters.
        observations: the number of observations, of a difference those of both sides.
    """

    value: float
    standard_error: float | None
    low: float | None
    high: float | None
    clusters: int
    observations: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval is known and 0 lies outside."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def clustered_mean(clusters: Clusters, confidence: float = 0.95) -> Estimate:
    """The mean of all observations and its interval.

    With N observations in G clusters and mean m, the squared error is
    ``G / (G - 1) * sum over clusters of (sum over its observations of (x - m))^2 / N^2``.

    Raises:
        ValueError: no cluster, an empty one, or a confidence outside (0, 1).
    """
    mean, count = _mean(clusters)
    return _estimate(mean, _shares(clusters, mean, count), count, confidence)


def paired_difference(after: Clusters, before: Clusters, confidence: float = 0.95) -> Estimate:
    """The mean of ``after`` minus that of ``before``, over the clusters that both have, and its interval.

    A cluster's share in the error is its share in the mean of ``after`` minus that in the mean of ``before``,
    so what a cluster's hardness does to both sides cancels. Where all clusters are of one size on each side,
    this is the paired t interval of the clusters' mean differences.

    Raises:
        ValueError: no common cluster, an empty one, or a confidence outside (0, 1).
    """
    common = [name for name in after if name in before]
    one, other = ({name: side[name] for name in common} for side in (after, before))
    (mean_one, count_one), (mean_other, count_other) = _mean(one), _mean(other)
    shares = [
        of_one - of_other
        for of_one, of_other in zip(
            _shares(one, mean_one, count_one), _shares(other, mean_other, count_other), strict=True
        )
    ]
    return _estimate(mean_one - mean_other, shares, count_one + count_other, confidence)


def majority_vote(answers: Sequence[str | None]) -> int | None:
    """The place of the first answer that is a most frequent one; None where there is no answer at all.

    None is no answer and never a majority; of several most frequent answers the one that came first wins.
    """
    given = [answer.strip() for answer in answers if answer is not None]
    if not given:
        return None
    winner, _ = Counter(given).most_common(1)[0]  # of equals the first one met
    return next(place for place, answer in enumerate(answers) if answer is not None and answer.strip() == winner)


@functools.lru_cache(maxsize=256)
def student_t_quantile(probability: float, degrees: float) -> float:
    """The value that Student's t with so many degrees of freedom stays below with this probability.

    By bisection on ``P(|T| > t) = I_x(degrees / 2, 1 / 2)`` with ``x = degrees / (degrees + t^2)`` (DLMF 8.17).

    Raises:
        ValueError: a probability outside (0, 1), or degrees that are not positive.
    """
    if not 0 < probability < 1:
        raise ValueError(f"a probability lies between 0 and 1, not {probability}")
    if not degrees > 0:
        raise ValueError(f"degrees of freedom are positive, not {degrees}")
    if probability < 0.5:
        return -student_t_quantile(1 - probability, degrees)
    outside = 2 * (1 - probability)
    high = 1.0
    while _outside(high, degrees) > outside:
        high *= 2
    return _root(lambda t: _outside(t, degrees) - outside, 0.0, high)


# ------------------------------------------------------------------ the parts of an estimate


def _mean(clusters: Clusters) -> tuple[float, int]:
    if not clusters:
        raise ValueError("no cluster, so no mean")
    if not all(len(values) for values in clusters.values()):
        raise ValueError("a cluster without observations")
    count = sum(len(values) for values in clusters.values())
    return math.fsum(value for values in clusters.values() for value in values) / count, count


def _shares(clusters: Clusters, mean: float, count: int) -> list[float]:
    """What each cluster adds to the mean beyond its part; they sum to 0."""
    return [math.fsum(value - mean for value in values) / count for values in clusters.values()]


def _estimate(value: float, shares: Sequence[float], observations: int, confidence: float) -> Estimate:
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies between 0 and 1, not {confidence}")
    groups = len(shares)
    if groups < 2:
        return Estimate(value, None, None, None, groups, observations)
    error = math.sqrt(groups / (groups - 1) * math.fsum(share**2 for share in shares))
    half = student_t_quantile((1 + confidence) / 2, groups - 1) * error
    return Estimate(value, error, value - half, value + half, groups, observations)


# ------------------------------------------------------------------ Student's t


def _outside(t: float, degrees: float) -> float:
    """``P(|T| > t)``."""
    whole = degrees + t * t
    return _regularised_beta(degrees / whole, t * t / whole, degrees / 2, 0.5)


def _regularised_beta(x: float, y: float, a: float, b: float) -> float:
    """``I_x(a, b)``; ``y = 1 - x`` is given apart, as a difference would lose its digits near 1."""
    if x == 0 or y == 0:
        return 0.0 if x == 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast below this point only
        return 1 - _regularised_beta(y, x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(y)
    return math.exp(log_front) / a * _beta_fraction(x, a, b)


def _beta_fraction(x: float, a: float, b: float) -> float:
    """``1 / (1 + d_1 / (1 + d_2 / (1 + ...)))`` of DLMF 8.17.22, by the modified method of Lentz."""
    value = c = _TINY
    d = 0.0
    for term in _beta_terms(x, a, b):
        d = 1 / ((1 + term * d) or _TINY)
        c = (1 + term / c) or _TINY
        value *= c * d
        if abs(c * d - 1) < _PRECISION:
            break
    return value


def _beta_terms(x: float, a: float, b: float) -> Iterator[float]:
    yield 1.0
    for m in range(_MOST_TERMS):
        if m:
            yield m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        yield -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function passes 0 between two points, to the last digits."""
    while True:
        middle = (low + high) / 2
        if middle in (low, high) or high - low <= _PRECISION * high:
            return middle
        if function(middle) > 0:
            low = middle
        else:
            high = middle
