"""Hints of a prompt: conditions on what a run showed, such as ``objects.Rectangle >= 3`` or ``reacted_to_keys``.

A hint is a name of :data:`COUNTS` or :data:`NAMED`, the latter with a key after a dot, then optionally an operator and
a whole number. Without them it holds if the count is at least 1. Any other text is not a condition and is ignored.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from engine.tasks.phaser.validation.verdict import Observed

_FORM = re.compile(r"([a-z_]+)(?:\.([A-Za-z0-9_]{1,40}))?(?:\s*(>=|==|<=|>|<)\s*([0-9]{1,6}))?")

_KEY_CODES: Mapping[str, int] = MappingProxyType(
    {
        **{chr(code): code for code in range(ord("A"), ord("Z") + 1)},
        **{"LEFT": 37, "UP": 38, "RIGHT": 39, "DOWN": 40, "SPACE": 32, "ENTER": 13, "ESC": 27, "SHIFT": 16},
    }
)
"""A run names a key as the program does: by its name or by its code."""

_REACTIONS = ("reacted_to_keys", "reacted_to_pointer")

_OPERATORS: Mapping[str, Callable[[int, int], bool]] = MappingProxyType(
    {">=": operator.ge, "==": operator.eq, "<=": operator.le, ">": operator.gt, "<": operator.lt}
)

COUNTS: Mapping[str, Callable[[Observed], int]] = MappingProxyType(
    {
        "frames": lambda seen: seen.frames,
        "display_list": lambda seen: seen.display_list,
        "moved": lambda seen: seen.moved,
        "timers_fired": lambda seen: seen.timers_fired,
        "tween_updates": lambda seen: int(seen.tween_updates),
        "collisions": lambda seen: seen.collisions,
        "textures": lambda seen: len(seen.textures),
        "animations": lambda seen: len(seen.animations),
        "scenes": lambda seen: sum(scene.created > 0 for scene in seen.scenes),
        "bodies": lambda seen: sum(scene.bodies for scene in seen.scenes),
        "static_bodies": lambda seen: sum(scene.static_bodies for scene in seen.scenes),
        "timers": lambda seen: sum(scene.timers for scene in seen.scenes),
        "tweens": lambda seen: sum(scene.tweens for scene in seen.scenes),
        "reacted_to_keys": lambda seen: int(bool(seen.reacted_to_keys)),
        "reacted_to_pointer": lambda seen: int(bool(seen.reacted_to_pointer)),
    }
)
"""Conditions without a key."""

NAMED: Mapping[str, Callable[[Observed, str], int]] = MappingProxyType(
    {
        "objects": lambda seen, key: sum(scene.objects.get(key, 0) for scene in seen.scenes),
        "constructed": lambda seen, key: seen.constructed.get(key, 0),
        "keys": lambda seen, key: int(key in seen.keys or str(_KEY_CODES.get(key, "")) in seen.keys),
        "input_events": lambda seen, key: int(key in seen.input_events),
        "signals": lambda seen, key: int(_has(seen.signals, key)),
        "signal_changes": lambda seen, key: int(_value(seen.signals, key) != _value(seen.signals_at_start, key)),
    }
)
"""Conditions with a key."""


def is_condition(hint: str) -> bool:
    """Whether a hint is a condition that a run can be checked for."""
    return _parts(hint) is not None


def needs_reaction(hint: str) -> bool:
    """Whether a condition compares the run with one without input."""
    parts = _parts(hint)
    return parts is not None and parts[0] in _REACTIONS


def holds(hint: str, seen: Observed) -> bool | None:
    """Whether a condition holds for a run; None for a text that is no condition."""
    parts = _parts(hint)
    if parts is None:
        return None
    name, key, sign, number = parts
    count = NAMED[name](seen, key) if key else COUNTS[name](seen)
    return _OPERATORS[sign](count, number)


def _parts(hint: str) -> tuple[str, str, str, int] | None:
    found = _FORM.fullmatch(hint.strip())
    if found is None:
        return None
    name, key, sign, number = found.groups()
    if name not in (NAMED if key else COUNTS):
        return None
    return name, key or "", sign or ">=", int(number or 1)


def _has(signals: Any, key: str) -> bool:
    return isinstance(signals, Mapping) and key in signals


def _value(signals: Any, key: str) -> Any:
    return signals.get(key) if isinstance(signals, Mapping) else None
