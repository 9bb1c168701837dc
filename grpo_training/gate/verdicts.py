"""The verdict on a library, in words."""

from typing import Literal

from engine.experience.events import GateEvent
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


def verdict_lines(event: GateEvent) -> list[str]:
    """A gate in sentences: its verdict, and what follows from it."""
    cost = "" if event.cost_usd is None else f", ${event.cost_usd:.4f}"
    found = sentence(event.verdict, event.mean, event.low, event.high)
    lines = [f"{found} on {event.problems} of {event.of} problems, {event.tokens:,} tokens{cost}"]
    left = event.of - event.problems - event.open
    if left and event.verdict != "rejected":
        lines.append(f"--ask-all asks the other {left} problems too: its interval is narrower.")
    if event.needed is not None and event.needed > event.of:
        more = event.needed - event.of
        lines.append(f"About {more} more problems would be needed to see 10 points. The library stays in use.")
    if event.verdict == "rejected":
        lines.append("It is not used any more, until it changes. Pinned experiences stay in use.")
    return lines


def points(share: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return f"{100 * share:+z.1f}"
