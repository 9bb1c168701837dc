"""Hints of a prompt: conditions on what a run showed, such as ``objects.Rectangle >= 3`` or ``reacted_to_keys``.

A hint is a name of :data:`COUNTS` or :data:`NAMED`, the latter with a key after a dot, then optionally an operator and
a whole number. Without them it holds if the count is at least 1. Any other text is not a condition and is ignored. The
keys of ``drawn`` are described in :mod:`engine.tasks.phaser.drawn_conditions`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from engine.tasks.phaser.colors import is_color
from engine.tasks.phaser.drawn_conditions import is_key, matching
from engine.tasks.phaser.validation.observed import Drawn, Observed, Shape

_FORM = re.compile(r"([a-z_]+)(?:\.([A-Za-z0-9_]{1,80}))?(?:\s*(>=|==|<=|>|<)\s*([0-9]{1,6}))?")

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

_TOLERANCE = 1  # pixels

COUNTS: Mapping[str, Callable[[Observed], int]] = MappingProxyType(
    {
        "frames": lambda seen: seen.frames,
        "display_list": lambda seen: seen.display_list,
        "moved": lambda seen: seen.moved,
        "changed_texts": lambda seen: seen.changed_texts,
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
        "inside": lambda seen, key: sum(scene.inside.get(key, 0) for scene in seen.scenes),
        "texts": lambda seen, key: sum(_has_word(text, key) for scene in seen.scenes for text in scene.texts),
        "shapes": lambda seen, key: sum(is_color(shape.color, key) for scene in seen.scenes for shape in scene.shapes),
        "sizes": lambda seen, key: sum(_has_size(shape, key) for scene in seen.scenes for shape in scene.shapes),
        "drawn": lambda seen, key: len(matching(seen.drawn, key)),
        "ground": lambda seen, key: int(is_color(seen.ground, key)),
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


def holds(hint: str, seen: Observed, rivals: Sequence[str] = ()) -> bool | None:
    """Whether a condition holds for a run; None for a text that is no condition.

    Args:
        hint: the condition.
        seen: the run.
        rivals: conditions on the other features of the game. An object that also satisfies one of them need not be
            counted: two features may ask for alike objects.
    """
    parts = _parts(hint)
    if parts is None:
        return None
    name, key, sign, number = parts
    if name != "drawn":
        count = NAMED[name](seen, key) if key else COUNTS[name](seen)
        return _OPERATORS[sign](count, number)
    found = matching(seen.drawn, key)
    shared = len(_drawn_by(rivals, found))
    return any(_OPERATORS[sign](count, number) for count in range(len(found) - shared, len(found) + 1))


def drawn_by(hints: Iterable[str], seen: Observed) -> list[Drawn]:
    """The objects that satisfy one of the conditions on drawn objects."""
    return _drawn_by(hints, seen.drawn)


def _drawn_by(hints: Iterable[str], drawn: Sequence[Drawn]) -> list[Drawn]:
    keys = [parts[1] for hint in hints if (parts := _parts(hint)) is not None and parts[0] == "drawn"]
    return [one for one in drawn if any(matching([one], key) for key in keys)]


def _has_word(text: str, word: str) -> bool:
    """Whether a text has a word, or a number: ``40`` is in ``Score: 40``, not in ``40.5``."""
    if word.isdecimal():
        return re.search(rf"(?<![0-9.]){word}(?:\.0+)?(?![0-9]|\.[0-9])", text) is not None
    return re.search(rf"\b{re.escape(word)}\b", text) is not None


def _has_size(shape: Shape, size: str) -> bool:
    """Whether a shape has a size such as ``100x40``, up to a pixel."""
    found = re.fullmatch(r"(\d{1,5})x(\d{1,5})", size)
    wanted = (int(found[1]), int(found[2])) if found else (-2, -2)
    return all(abs(a - b) <= _TOLERANCE for a, b in zip((shape.width, shape.height), wanted, strict=True))


def _parts(hint: str) -> tuple[str, str, str, int] | None:
    found = _FORM.fullmatch(hint.strip())
    if found is None:
        return None
    name, key, sign, number = found.groups()
    if name not in (NAMED if key else COUNTS) or (name == "drawn" and not is_key(key)):
        return None
    return name, key or "", sign or ">=", int(number or 1)


def _has(signals: Any, key: str) -> bool:
    return isinstance(signals, Mapping) and key in signals


def _value(signals: Any, key: str) -> Any:
    return signals.get(key) if isinstance(signals, Mapping) else None
