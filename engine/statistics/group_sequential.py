"""Does one arm do better than another? A group-sequential test of paired differences with four looks.

The bounds are those of O'Brien and Fleming (1979): the test stops at look k of K if ``|mean / se| >= C sqrt(K / k)``,
where C is the constant for which a difference that does not exist is reported with probability alpha over all looks.
The bounds are computed by the recursion of Armitage, McPherson and Rowe (1969) and are used as quantiles of Student's
t distribution, as the variance is estimated.
"""

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import Literal

from engine.statistics.paired import student_t_quantile

LOOKS = 4
"""Looks of a test, at equal steps of its problems."""
_PSEUDO_OBSERVATIONS = 4
"""Observations of variance ``0.25 / samples`` that the variance is estimated with, beside those of the test. Without
them a few equal differences have no variance, and any mean of them is significant. They never lower the variance: where
the answers to a problem are alike, as at temperature 0, that of the differences is up to ``samples`` times as much."""
_POINTS = 129
"""Points of Simpson's rule between the bounds."""
_NORMAL = NormalDist()

Conclusion = Literal["better", "worse", "not_proven"]


@dataclass(frozen=True)
class Finding:
    """The result of a test so far.

    Args:
        verdict: ``better`` or ``worse`` once a bound is reached; ``not_proven`` after the last look without that; None
            while the test goes on.
        mean: mean difference of the problems up to the last look.
        low, high: its interval, valid although several looks were taken.
        problems: number of problems up to the last look.
        variance: estimated variance of a difference.
    """

    verdict: Conclusion | None
    mean: float
    low: float
    high: float
    problems: int
    variance: float


@dataclass(frozen=True)
class GroupSequentialTest:
    """A test of ``problems`` paired differences, each the mean of ``samples`` answers minus that of as many others.

    Args:
        problems: number of differences if the test does not stop before; at least ``2 * LOOKS``.
        samples: answers per problem and arm.
        alpha: two-sided probability of a verdict other than ``not_proven`` without an effect.

    Raises:
        ValueError: too few problems, no sample, or an alpha outside (0, 1).
    """

    problems: int
    samples: int
    alpha: float = 0.05

    def __post_init__(self) -> None:
        if self.problems < 2 * LOOKS:
            raise ValueError(f"a test needs at least {2 * LOOKS} problems, got {self.problems}")
        if self.samples < 1:
            raise ValueError(f"a test needs at least one sample, got {self.samples}")
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha must be between 0 and 1, got {self.alpha}")

    @property
    def looks(self) -> tuple[int, ...]:
        """Number of problems at each look."""
        return tuple(math.ceil(self.problems * k / LOOKS) for k in range(1, LOOKS + 1))

    def finding(self, differences: Sequence[float], *, stops: bool = True) -> Finding | None:
        """The result after some differences, in the order in which the problems were drawn; None before the first look.

        The intervals of all looks hold together with probability ``1 - alpha``, so that each of them is valid whether
        or not, and why, the test went on after it (Jennison and Turnbull 1989).

        Args:
            differences: one per problem.
            stops: differences after the first look that decided are not counted. False: the result is that of the last
                look, whose interval is the narrowest.
        """
        finding = None
        for k, count in enumerate(self.looks, 1):
            if len(differences) < count or (stops and finding is not None and finding.verdict is not None):
                break
            finding = self.look(k, differences[:count])
        return finding

    def look(self, k: int, differences: Sequence[float]) -> Finding:
        """The result at look ``k``; at least two differences, a few less than planned if problems have none."""
        count, mean = len(differences), fmean(differences)
        squares = math.fsum((difference - mean) ** 2 for difference in differences)
        shrunk = (squares + _PSEUDO_OBSERVATIONS * 0.25 / self.samples) / (count - 1 + _PSEUDO_OBSERVATIONS)
        variance = max(shrunk, squares / (count - 1))
        bound = boundary_constant(self.alpha) * math.sqrt(LOOKS / k)
        half = -student_t_quantile(math.erfc(bound / math.sqrt(2)) / 2, count - 1) * math.sqrt(variance / count)
        verdict: Conclusion | None = "not_proven" if k == LOOKS else None
        if abs(mean) >= half:
            verdict = "better" if mean > 0 else "worse"
        return Finding(verdict, mean, mean - half, mean + half, count, variance)


def alpha_of_test(number: int, alpha: float = 0.05) -> float:
    """The alpha of the ``number``-th test on the same problems, from 1: all tests together have ``alpha``.

    It is ``alpha * 6 / (pi^2 number^2)``, whose sum over all numbers is ``alpha``.
    """
    if number < 1:
        raise ValueError(f"tests are numbered from 1, got {number}")
    return alpha * 6 / (math.pi * number) ** 2


def problems_needed(variance: float, effect: float = 0.10, power: float = 0.80, alpha: float = 0.05) -> int:
    """The number of problems with which an effect is found with this power, rounded up to a multiple of five.

    Normal approximation at the last look.

    Args:
        variance: of the difference of one problem, as in :class:`Finding`.
        effect: difference of the two arms' means.
        power: probability of finding it.
        alpha: of the test.
    """
    wanted = (boundary_constant(alpha) + _NORMAL.inv_cdf(power)) ** 2 * variance / effect**2
    return max(2 * LOOKS, math.ceil(wanted / 5) * 5)


@functools.lru_cache(maxsize=64)
def boundary_constant(alpha: float) -> float:
    """The constant C of O'Brien and Fleming for a two-sided alpha and ``LOOKS`` looks.

    The statistic at look k is a sum of k standard normal steps, divided by ``sqrt(k)``, so that the bounds of all
    looks are the same one for the sum: ``C sqrt(LOOKS)``.
    """
    low, high = 0.0, 10.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        if _probability_inside(middle * math.sqrt(LOOKS)) < 1 - alpha:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _probability_inside(bound: float) -> float:
    """The probability that a random walk of ``LOOKS`` standard normal steps stays within ``-bound`` and ``bound``."""
    step = 2 * bound / (_POINTS - 1)
    normal = [math.exp(-((step * n) ** 2) / 2) / math.sqrt(2 * math.pi) for n in range(_POINTS)]
    weights = [step / 3 * (1 if n in (0, _POINTS - 1) else 4 if n % 2 else 2) for n in range(_POINTS)]
    kernel = [*reversed(normal[1:]), *normal]
    density = kernel[_POINTS // 2 : _POINTS // 2 + _POINTS]
    for _ in range(LOOKS - 1):
        weighted = list(map(operator.mul, density, weights))
        density = [math.fsum(map(operator.mul, weighted, kernel[n : n + _POINTS])) for n in reversed(range(_POINTS))]
    return math.fsum(map(operator.mul, density, weights))
