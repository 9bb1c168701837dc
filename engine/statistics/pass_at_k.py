"""pass@k: the probability that at least one of k samples is correct, estimated from n >= k samples per problem.

The unbiased estimator of Chen et al. 2021, "Evaluating Large Language Models Trained on Code", section 2.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from engine.statistics.paired import Estimate, clustered_share, paired_difference

Counts = tuple[int, int]
"""(n, c): the number of samples of a problem, and how many of them are correct."""


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """``1 - C(n - c, k) / C(n, k)``: the share of all subsets of k samples that contain a correct one.

    The quotient of binomials is a product of min(c, k) factors ``1 - max(c, k) / (n - j)``. It is computed as a
    sum of logarithms, so that nothing overflows and small probabilities keep their precision.

    Args:
        n: number of samples.
        c: number of correct samples.
        k: size of the subsets.

    Returns:
        None where n < k: pass@k cannot be estimated from fewer than k samples.

    Raises:
        ValueError: a negative count, c > n, or k < 1.
    """
    if not 0 <= c <= n or k < 1:
        raise ValueError(f"expected 0 <= c <= n and k >= 1, got n = {n}, c = {c}, k = {k}")
    if n < k:
        return None
    if n - c < k:
        return 1.0
    few, many = min(c, k), max(c, k)
    return -math.expm1(math.fsum(math.log1p(-many / (n - j)) for j in range(few))) + 0.0  # turns -0.0 into 0.0


def mean_pass_at_k(counts: Mapping[str, Counts], k: int) -> Estimate | None:
    """The mean of pass@k over problems, each with the same weight, with its 95 % interval.

    Args:
        counts: problem id -> (n, c).
        k: see :func:`pass_at_k`.

    Returns:
        None without problems, or where a problem has fewer than k samples: leaving that problem out would
        change the set of problems that the mean is about.
    """
    values = _values(counts, k)
    return clustered_share(values, sum(n for n, _ in counts.values())) if values else None


def difference_in_pass_at_k(after: Mapping[str, Counts], before: Mapping[str, Counts], k: int) -> Estimate | None:
    """The mean of pass@k ``after`` minus ``before`` over the common problems, with its paired 95 % interval.

    Returns:
        None without common problems, or where one of them has fewer than k samples on either side.
    """
    common = after.keys() & before.keys()
    counts_after, counts_before = ({name: side[name] for name in side if name in common} for side in (after, before))
    values_after, values_before = _values(counts_after, k), _values(counts_before, k)
    return paired_difference(values_after, values_before) if values_after and values_before else None


def _values(counts: Mapping[str, Counts], k: int) -> dict[str, list[float]]:
    """pass@k by problem; empty if it is undefined for any problem."""
    values = {name: pass_at_k(n, c, k) for name, (n, c) in counts.items()}
    return {name: [value] for name, value in values.items() if value is not None} if None not in values.values() else {}
