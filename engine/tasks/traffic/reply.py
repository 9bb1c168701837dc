"""The reader of replies: strict, partial or invalid, and the decision. Rewards and closed-loop evaluation use it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum

_LONGEST = 20_000  # characters of a reply that is read; a decision takes about twenty

# ASCII: without it `IGNORECASE` also matches letters such as the long s in "yeſ".
_FLAGS = re.IGNORECASE | re.ASCII
# An object that begins with the key `extend`, also with missing quotes or with more keys after it.
_PARTIAL = re.compile(r'\{["\s]*extend["\s]*:["\s]*(yes|no)["\s]*[,}]', _FLAGS)
_ESCAPED_LETTER = re.compile(r"\\u00([46][1-9a-fA-F]|[57][0-9aA])")
_DECISION = re.compile(r"\bextend[\"'\s]*:[\"'\s]*(?:yes|no)\b", _FLAGS)


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
    Partial: somewhere an object begins with such a key. Invalid: neither, or more than one decision, also if they are
    equal; or a text of more than 20,000 characters. Text before ``</think>``, and thinking that does not end, are not
    part of it.
    """
    if not isinstance(text, str):
        return INVALID
    text = text.rpartition("</think>")[2].partition("<think>")[0]
    text = _ESCAPED_LETTER.sub(lambda match: chr(int(match[1], 16)), text)  # JSON reads these as letters too
    if len(text) > _LONGEST or len(_DECISION.findall(text)) > 1:
        return INVALID
    value = _only_value(text)
    if value is not None:
        return TrafficReply(Tier.STRICT, value)
    match = _PARTIAL.search(text)
    return INVALID if match is None else TrafficReply(Tier.PARTIAL, match.group(1).lower() == "yes")


def _only_value(text: str) -> bool | None:
    try:
        loaded = json.loads(text.strip(), object_pairs_hook=tuple)  # pairs, as a key may occur twice
    except (ValueError, RecursionError):
        return None
    if not isinstance(loaded, tuple) or len(loaded) != 1:
        return None
    key, value = loaded[0]
    return {"yes": True, "no": False}.get(value.lower()) if key == "extend" and isinstance(value, str) else None
