"""The verdict on a library, in words."""

from typing import Literal

from engine.statistics.group_sequential import Finding

Verdict = Literal["adopted", "rejected", "not_proven"]

_VERDICTS: dict[str, Verdict] = {"better": "adopted", "worse": "rejected", "not_proven": "not_proven"}
_SAID = {
    "adopted": "adopted: the library helps",
    "rejected": "rejected: the library harms",
    "not_proven": "not proven",
}


def verdict_of(finding: Finding) -> Verdict:
    """The verdict of a finding that decided, or of the last look."""
    return _VERDICTS[finding.verdict or "not_proven"]


def sentence(verdict: Verdict, mean: float, low: float, high: float) -> str:
    """The verdict with the difference and its interval, which are shares."""
    return f"{_SAID[verdict]}, {points(mean)} points (interval {points(max(low, -1.0))} to {points(min(high, 1.0))})"


def points(share: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return f"{100 * share:+.1f}"
