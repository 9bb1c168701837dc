"""The JSON object that a reply was asked for, found in whatever stands around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.reading.loose_json import RepairLog, TooDeepError, plain, read_object, segments
from engine.records import Fault

_MAX_TEXT = 200_000
_MAX_PARTS = 10_000
_MAX_ATTEMPTS = 6


@dataclass(frozen=True)
class Reading:
    """The object and what was repairs in it, or the fault: ``no_json``, ``cut_off``, ``schema``."""

    value: dict[str, Any] | None
    repairs: list[str] = field(default_factory=list)
    fault: Fault | None = None


def read_json_object(text: str, required: str) -> Reading:
    """Read the last object of a text that has the key ``required``. Never raises; bounded in time.

    Args:
        text: a reply; of one above 200,000 characters the end is read.
        required: the key that the object must have.
    """
    text = text[-_MAX_TEXT:].rpartition("</think>")[2]
    places, left_open = segments(text)
    likely = [place for place in places if required in text[place[0] : place[1]]]
    for start, end in reversed(likely[-_MAX_ATTEMPTS:]):
        repairs = RepairLog()
        try:
            value = read_object(text[start:end], repairs)
            if isinstance(value, dict) and required in value:
                return Reading(plain(value, repairs, _MAX_PARTS), repairs.codes)
        except (TooDeepError, ValueError):
            continue
    if left_open and required in text:
        return Reading(None, fault=Fault(kind="cut_off", message="the object is not closed"))
    if likely:
        return Reading(None, fault=Fault(kind="schema", message=f"no readable object has the key {required}"))
    return Reading(None, fault=Fault(kind="no_json", message=f"no JSON object with the key {required}"))
