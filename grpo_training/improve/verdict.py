"""The result of a run in one sentence. Pure functions."""

from __future__ import annotations

from decimal import Decimal

from engine.experience.events import GateEvent
from grpo_training.cli.terminal_text import counted
from grpo_training.experiences.descriptions import points

_DIGITS = 2
"""After the point, at most."""


def sentence(event: GateEvent | None, experiences: int, spent: str, none_right: str = "") -> str:
    """What was found, as a person would say it.

    Args:
        event: the test of the library; None if there was nothing to test.
        experiences: that were tested; without a test, those in the library.
        spent: what the run cost, such as ``1.90 USD were spent``; empty if it is not known.
        none_right: where no reply was right, a reply beside its right answer; else empty.
    """
    cost = f"; {spent}" if spent else ""
    if event is None and experiences:
        return (
            f"No improvement could be shown: {experiences} experiences were learned, and none of them is in use, as "
            f"none has helped while they were on trial{cost}."
        )
    if event is None and none_right:
        return f"No improvement could be shown: nothing was learned, as {none_right}{cost}."
    if event is None:
        return (
            "No improvement could be shown: nothing was learned, as the answers of a problem did not differ or the "
            f"analyst proposed nothing that could be used (a larger model can be the analyst of --api-config){cost}."
        )
    interval = f"{level(event.alpha)} interval {points(event.low)} to {points(event.high)}"
    if event.verdict == "not_proven":
        more = max(0, (event.needed or 0) - event.of)
        needed = f"; about {more} more problems would be needed to see 10 points" if more else ""
        unused = ": the improved prompt has no experiences" if is_likely_to_harm(event) else ""
        return f"No improvement could be shown ({points(event.mean)} points, {interval}){unused}{needed}{cost}."
    with_it, without, difference = compared_shares(event.right_with, event.right_without, event.mean)
    problems = f"{event.problems} {'held-out ' if not event.own else ''}problems"
    figures = f"{without} -> {with_it} on {problems} ({difference} points, {interval})"
    if event.own:
        figures += ", each asked without what was learned from it"
    ratio = "" if event.tokens_ratio is None else f" at {event.tokens_ratio:.1f} times the tokens"
    harms = "The experiences harm and are not used: accuracy"
    return (
        f"{harms if event.verdict == 'rejected' else 'Accuracy'} {figures}, "
        f"with {counted(experiences, 'experience')}{ratio}{cost}."
    )


def is_likely_to_harm(event: GateEvent) -> bool:
    """Whether a test that proves nothing found more right answers without the library.

    Then the prompt without it is the better one more probably than not, and has fewer tokens.
    """
    return event.verdict == "not_proven" and event.mean < 0


def unfinished_sentence(experiences: int, spent: str) -> str:
    """What is known before the test has ended.

    Args:
        experiences: to be tested; 0: learning has not ended either, and none is in use yet.
        spent: as for :func:`sentence`.
    """
    cost = f" ({spent})" if spent else ""
    if not experiences:
        return (
            f"Learning is not finished, and there is no experience to use yet{cost}. Run the same command again to "
            "continue; stored answers are not asked for again."
        )
    claim = "1 experience helps" if experiences == 1 else f"{experiences} experiences help"
    return (
        f"It is not known yet whether the {claim}, as the test is not finished{cost}. Run the same command again to "
        "finish it; stored answers are not asked for again."
    )


def spending(tokens: int, cost_usd: float | None) -> str:
    """What a run has cost, in words."""
    return f"{tokens:,} tokens were spent" if cost_usd is None else f"{cost_usd:.2f} USD were spent"


def compared_shares(first: float | None, second: float | None, mean: float) -> tuple[str, str, str]:
    """Two shares and their difference, in the fewest digits that agree; "?" for shares that are not known.

    Rounded one by one, 88.7 % and 26.4 % would be 89 % and 26 % with a difference of +62 points. Digits are added until
    the difference of the printed shares is the rounded difference.
    """
    if first is None or second is None:
        return "?", "?", points(mean)
    for digits in range(_DIGITS + 1):
        shown = [Decimal(f"{100 * share:.{digits}f}") for share in (first, second, mean)]
        if shown[0] - shown[1] == shown[2]:
            break
    return f"{shown[0]} %", f"{shown[1]} %", f"{(shown[0] - shown[1]).normalize():+f}"


def level(alpha: float) -> str:
    """The level of an interval. Two digits of alpha are kept, so that a small one does not give 100 %."""
    return f"{100 - float(f'{100 * alpha:.2g}'):.9g} %"
