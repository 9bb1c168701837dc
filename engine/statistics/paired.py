"""Means and paired differences of scores, with cluster-robust confidence intervals.

Samples of one problem are correlated, so the problem is the unit of sampling (the cluster). Standard errors are
cluster-robust (Liang and Zeger 1986; for evaluations of models: Miller 2024, "Adding Error Bars to Evals") with the
small-sample correction G / (G - 1). Intervals use Student's t with G - 1 degrees of freedom; those of shares, which
are bounded, are Wilson's. Their confidence is 95 %.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import mpmath

Clusters = Mapping[str, Sequence[float]]
"""Cluster -> its observations, at least one each."""

_BOUND = 0.975
"""The quantile at the upper end of the intervals, which hold the value with 95 % confidence."""

_DIGITS = 30
"""Working precision of the quantile, in decimal digits; the result is rounded to a float."""
_TOLERANCE = 1e-18


@dataclass(frozen=True)
class Estimate:
    """A mean or a difference of means, with its confidence interval.

    Args:
        value: the estimate.
        standard_error: cluster-robust standard error; None for a single cluster. It is 0 where all clusters
            agree, and the interval of a mean or difference is then a point (that of a share is not).
        low, high: the ends of the interval; None without a standard error.
        clusters: number of clusters.
        observations: number of observations; for a difference, of both sides together.
    """

    value: float
    standard_error: float | None
    low: float | None
    high: float | None
    clusters: int
    observations: int


def clustered_mean(clusters: Clusters) -> Estimate:
    """The mean of all observations, with its interval.

    With N observations in G clusters and mean m, the squared standard error is
    ``G / (G - 1) * sum over clusters of (sum over its observations of (x - m))^2 / N^2``.

    Raises:
        ValueError: no cluster, or an empty cluster.
    """
    return _estimate(*_mean(clusters))


def clustered_share(clusters: Clusters, samples: int | None = None) -> Estimate:
    """The mean of observations in [0, 1], with an interval that stays in [0, 1] and has a width also at 0 and 1.

    It is Wilson's interval (1927) for the number of independent yes-or-no samples that the clusters are worth:
    ``p (1 - p)`` by their squared deviations, corrected for the number of clusters (Korn and Graubard 1998), and where
    all are 0 or all are 1, the number of clusters. With one such sample in each cluster it is Wilson's interval itself.

    Args:
        clusters: the observations, shares of a cluster's samples included.
        samples: the samples behind all observations, where an observation stands for several; the clusters are never
            worth more.

    Raises:
        ValueError: no cluster, or an empty cluster.
    """
    p, deviations, count = _mean(clusters)
    estimate, groups = _estimate(p, deviations, count), len(clusters)
    if groups < 2:
        return estimate
    variance = math.fsum(deviation**2 for deviation in deviations)
    low, high = share_interval(p, variance, groups, max(samples or count, groups))
    return replace(estimate, low=low, high=high)


def share_interval(p: float, variance: float, clusters: int, samples: int) -> tuple[float, float]:
    """The ends of the interval of :func:`clustered_share`.

    Args:
        p: the mean.
        variance: its squared standard error without the factor ``G / (G - 1)``.
        clusters, samples: their numbers; at least two clusters, and no fewer samples.
    """
    worth = float(clusters)
    if 0 < p < 1:
        worth = min(p * (1 - p) / variance, samples) if variance > 0 else float(samples)
    if worth > clusters:  # a gain over one sample in each cluster, estimated from few clusters
        lost = (student_t_quantile(_BOUND, samples - 1) / student_t_quantile(_BOUND, clusters - 1)) ** 2
        worth = max(worth * lost, clusters)
    return _wilson(p, worth, NormalDist().inv_cdf(_BOUND))


def _wilson(p: float, n: float, z: float) -> tuple[float, float]:
    centre, scale = p + z * z / (2 * n), 1 + z * z / n
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = (centre - half) / scale, (centre + half) / scale
    return (0.0 if p == 0 else max(low, 0.0)), (1.0 if p == 1 else min(high, 1.0))


def paired_difference(after: Clusters, before: Clusters) -> Estimate:
    """The mean of ``after`` minus the mean of ``before`` over their common clusters, with its interval.

    The two sides' deviations are subtracted per cluster, so the difficulty of a cluster cancels. Where all
    clusters of a side have the same size, this is the paired t interval of the clusters' mean differences.

    Raises:
        ValueError: no common cluster, or an empty cluster.
    """
    common = [name for name in after if name in before]
    mean_after, mean_before = (_mean({name: side[name] for name in common}) for side in (after, before))
    deviations = [of_after - of_before for of_after, of_before in zip(mean_after[1], mean_before[1], strict=True)]
    return _estimate(mean_after[0] - mean_before[0], deviations, mean_after[2] + mean_before[2])


@functools.lru_cache(maxsize=256)
def student_t_quantile(probability: float, degrees: float) -> float:
    """The quantile of Student's t distribution.

    Found by Newton's method on ``P(|T| > t) = I_x(degrees/2, 1/2)`` with ``x = degrees / (degrees + t^2)`` (DLMF 8.17).
    The function is convex and decreases, so from 0 on every step leads closer and none beyond the quantile.

    Raises:
        ValueError: the probability is outside (0, 1), or the degrees of freedom are not positive.
    """
    if not 0 < probability < 1:
        raise ValueError(f"probability must be between 0 and 1, got {probability}")
    if not degrees > 0:
        raise ValueError(f"degrees of freedom must be positive, got {degrees}")
    if probability < 0.5:
        return -_upper_quantile(2 * mpmath.mpf(probability), degrees)
    with mpmath.workdps(_DIGITS):
        outside = 2 * (1 - mpmath.mpf(probability))
    return _upper_quantile(outside, degrees)


def _upper_quantile(outside: mpmath.mpf, degrees: float) -> float:
    """The ``t`` with ``P(|T| > t) = outside``."""
    with mpmath.workdps(_DIGITS + max(0, -math.floor(mpmath.log10(outside)))):
        half = mpmath.mpf(degrees) / 2
        at_zero = 2 * mpmath.gammaprod([half + 0.5], [half]) / mpmath.sqrt(mpmath.pi * degrees)
        t = mpmath.mpf(0)
        while True:
            density = at_zero * (1 + t * t / degrees) ** (-half - 0.5)
            step = (_probability_outside(t, degrees) - outside) / density
            t += step
            if step <= _TOLERANCE * t:
                return float(t)


def _probability_outside(t: mpmath.mpf, degrees: float) -> mpmath.mpf:
    """``P(|T| > t)``, by the series whose argument is not close to 1."""
    if t * t < degrees:
        return 1 - mpmath.betainc(0.5, degrees / 2, 0, t * t / (degrees + t * t), regularized=True)
    return mpmath.betainc(degrees / 2, 0.5, 0, degrees / (degrees + t * t), regularized=True)


def _mean(clusters: Clusters) -> tuple[float, list[float], int]:
    """The mean of all observations, each cluster's contribution to its error (they sum to 0), and their number."""
    if not clusters:
        raise ValueError("no clusters to average")
    if not all(len(values) for values in clusters.values()):
        raise ValueError("a cluster without observations")
    count = sum(len(values) for values in clusters.values())
    mean = math.fsum(value for values in clusters.values() for value in values) / count
    return mean, [math.fsum(value - mean for value in values) / count for values in clusters.values()], count


def _estimate(value: float, deviations: Sequence[float], observations: int) -> Estimate:
    groups = len(deviations)
    if groups < 2:
        return Estimate(value, None, None, None, groups, observations)
    error = math.sqrt(groups / (groups - 1) * math.fsum(deviation**2 for deviation in deviations))
    half = student_t_quantile(_BOUND, groups - 1) * error
    return Estimate(value, error, value - half, value + half, groups, observations)
