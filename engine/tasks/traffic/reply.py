"""The reader of replies: strict, partial or invalid, and the decision. Rewards and closed-loop evaluation use it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum

_LONGEST = 20_000  # characters that are read; a decision takes about twenty

# The first object that begins with the key `extend`, also with missing quotes or with more keys after it.
_PARTIAL = re.compile(r'\{["\s]*extend["\s]*:["\s]*(yes|no)["\s]*[,}]', re.IGNORECASE)


class Tier(StrEnum):
    """How well a reply keeps to the form."""

    STRICT = "strict"
    PARTIAL = "partial"
    INVALID = "invalid"


@dataclass(frozen=True)
class TrafficReply:
    """A reply as it was read. ``extend`` is None where the tier is invalid."""

    tier: Tier
    extend: bool | None = None

    @property
    def decision(self) -> str | None:
        """``yes`` (extend) or ``no`` (switch)."""
        return None if self.extend is None else "yes" if self.extend else "no"


INVALID = TrafficReply(Tier.INVALID)


def read_reply(text: str | None) -> TrafficReply:
    """Read a decision.

    Strict: the whole text is one JSON object whose only key is ``extend``, with "yes" or "no" in any case.
    Partial: somewhere an object begins with such a key. Invalid: neither. Text before ``</think>`` is not part of it.
    """
    if not isinstance(text, str):
        return INVALID
    text = text.rpartition("</think>")[2][:_LONGEST]
    value = _only_value(text)
    if value is not None:
        return TrafficReply(Tier.STRICT, value)
    found = _PARTIAL.search(text)
    return INVALID if found is None else TrafficReply(Tier.PARTIAL, found.group(1).lower() == "yes")


def _only_value(text: str) -> bool | None:
    try:
        loaded = json.loads(text.strip())
    except (ValueError, RecursionError):
        return None
    if not isinstance(loaded, dict) or list(loaded) != ["extend"] or not isinstance(loaded["extend"], str):
        return None
    return {"yes": True, "no": False}.get(loaded["extend"].lower())
