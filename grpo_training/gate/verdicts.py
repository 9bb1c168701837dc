"""The verdict of a gate, in words."""

from engine.experience.events import GateEvent

_SAID = {
    "adopted": "adopted: the library helps",
    "rejected": "rejected: the library harms",
    "not_proven": "not proven",
}


def verdict_lines(event: GateEvent) -> list[str]:
    """A gate in sentences: its verdict, and what follows from it."""
    cost = "" if event.cost_usd is None else f", ${event.cost_usd:.4f}"
    lines = [
        f"{_SAID[event.verdict]}, {100 * event.mean:+z.1f} points (interval {100 * event.low:+z.1f} to "
        f"{100 * event.high:+z.1f}) on {event.problems} of {event.of} problems, {event.tokens:,} tokens{cost}"
    ]
    not_asked = event.of - event.problems - event.open
    if not_asked and event.verdict != "rejected":
        lines.append(f"--ask-all asks the other {not_asked} problems too: its interval is narrower.")
    if event.needed is not None and event.needed > event.of:
        more = event.needed - event.of
        lines.append(f"About {more} more problems would be needed to see 10 points. Further runs use the library.")
    if event.verdict == "rejected":
        lines.append("It is not used any more, until it changes. Pinned experiences stay in use.")
    return lines
