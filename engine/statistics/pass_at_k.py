"""pass@k: the chance that at least one of k samples of a problem is right, estimated from n >= k samples.

The unbiased estimator of Chen et al. 2021, "Evaluating Large Language Models Trained on Code", section 2.1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from engine.statistics.paired import clustered_mean, paired_difference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.statistics.paired import Estimate

Counts = tuple[int, int]
"""(n, c): samples of a problem, and how many of them are right."""


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """``1 - C(n - c, k) / C(n, k)``: the share of all choices of k among the n samples that hold a right one.

    The quotient of binomials is a product of min(c, k) factors, ``1 - max(c, k) / (n - j)``, and is summed up
    in logarithms: nothing overflows, and a small chance keeps its digits.

    Args:
        n: samples.
        c: right ones among them.
        k: how many are drawn.

    Returns:
        None where n < k: so few samples say nothing of k, and 0 would be a wrong answer.

    Raises:
        ValueError: a negative count, more right samples than samples, or k < 1.
    """
    if not 0 <= c <= n or k < 1:
        raise ValueError(f"no counts of samples: n = {n}, c = {c}, k = {k}")
    if n < k:
        return None
    if n - c < k:
        return 1.0
    few, many = min(c, k), max(c, k)
    return -math.expm1(math.fsum(math.log1p(-many / (n - j)) for j in range(few))) + 0.0  # + 0.0: no -0.0


def mean_pass_at_k(counts: Mapping[str, Counts], k: int) -> Estimate | None:
    """The mean of pass@k over problems, each counting once, with its 95 % interval over the choice of problems.

    Args:
        counts: problem id -> (n, c).
        k: how many samples are drawn.

    Returns:
        None where there is no problem, or one with fewer than k samples: without it the mean would be of
        other problems than it claims.
    """
    values = _values(counts, k)
    return clustered_mean(values) if values else None


def difference_in_pass_at_k(after: Mapping[str, Counts], before: Mapping[str, Counts], k: int) -> Estimate | None:
    """The mean over the common problems of pass@k after minus before, with its paired 95 % interval.

    Returns:
        None where no problem is in both, or one of those has fewer than k samples on a side.
    """
    common = after.keys() & before.keys()
    own, other = ({name: side[name] for name in side if name in common} for side in (after, before))
    values_after, values_before = _values(own, k), _values(other, k)
    return paired_difference(values_after, values_before) if values_after and values_before else None


def _values(counts: Mapping[str, Counts], k: int) -> dict[str, list[float]]:
    """Each problem's pass@k; empty where a problem has none."""
    values = {name: pass_at_k(n, c, k) for name, (n, c) in counts.items()}
    return {name: [value] for name, value in values.items() if value is not None} if None not in values.values() else {}
