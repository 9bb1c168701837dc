"""Conditions on the objects that a run draws: ``drawn.Rectangle_red_100x40 == 3``.

The key is a list of properties, separated by ``_``; the count is of the objects that have all of them:

``Rectangle``, ``inContainer``
    its class; the class of what draws it.
``red``, ``white``
    a colour that most of it had in some picture, see :func:`engine.tasks.phaser.colors.is_color`. Of an object that
    changes its colour often, a third of its colours have that name.
``100x40``, ``w100``, ``h40``
    size in pixels, without rotation and zoom, up to a pixel or 3 %.
``grown``
    it is wider than at first.
``angle45``
    degrees, up to 3.
``speed120``
    pixels per second along one axis or both, up to 8 %.
``fall300``
    its acceleration down the screen in pixels per second squared, up to 15 %.
``right``, ``left``, ``down``, ``up``
    where it moved most from its first to its last place.
``reach80``
    pixels between its outermost places along an axis, up to 3 pixels or 10 %.
``zoom120``
    of its camera in percent, up to 0.5.
``since300``
    milliseconds from the start to its first frame, up to 60 or 5 %.
``text40``, ``text40to49``, ``list5``
    its text has the number, or one of a range, and at most one other number; its text has the numbers 1 to 5, in any
    order, and no others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from engine.tasks.phaser.colors import COLOR_NAMES, is_color
from engine.tasks.phaser.validation.observed import Drawn

_NUMBERS = re.compile(r"(?<![\d.])\d{1,9}(?:\.\d{1,9})?", re.ASCII)
_VALUE = re.compile(r"([a-z]+)(\d{1,6})(?:to(\d{1,6}))?", re.ASCII)
_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})", re.ASCII)
_CLASS = re.compile(r"(in)?([A-Z][A-Za-z0-9]*)", re.ASCII)
_OTHER_NUMBERS = 1
_COLOR_SHARE = 1 / 3

_DIRECTIONS: Mapping[str, Callable[[Drawn], bool]] = MappingProxyType(
    {
        "right": lambda one: one.dx > 1 and one.dx >= abs(one.dy),
        "left": lambda one: one.dx < -1 and -one.dx >= abs(one.dy),
        "down": lambda one: one.dy > 1 and one.dy >= abs(one.dx),
        "up": lambda one: one.dy < -1 and -one.dy >= abs(one.dx),
        "grown": lambda one: one.width > one.first_width + 1,
    }
)

_VALUES: Mapping[str, Callable[[Drawn, int], bool]] = MappingProxyType(
    {
        "w": lambda one, value: _near_size(one.width, value),
        "h": lambda one, value: _near_size(one.height, value),
        "angle": lambda one, value: abs((one.angle - value + 180) % 360 - 180) <= 3,
        "speed": lambda one, value: any(
            abs(speed - value) <= max(3, 0.08 * value)
            for speed in (one.speed_x, one.speed_y, math.hypot(one.speed_x, one.speed_y))
        ),
        "fall": lambda one, value: abs(one.fall - value) <= 0.15 * value,
        "reach": lambda one, value: any(
            abs(reach - value) <= max(3, 0.1 * value) for reach in (one.reach_x, one.reach_y)
        ),
        "zoom": lambda one, value: abs(one.zoom - value) <= 0.5,
        "since": lambda one, value: abs(one.since - value) <= max(60, 0.05 * value),
        "text": lambda one, value: _has_number(one, value, value),
        "list": lambda one, value: sorted(_numbers(one)) == list(range(1, value + 1)),
    }
)


def is_key(key: str) -> bool:
    """Whether a key is a list of properties."""
    return all(_test(part) is not None for part in key.split("_"))


def matching(drawn: Sequence[Drawn], key: str) -> list[Drawn]:
    """The objects that have all properties of a key."""
    tests = [_test(part) for part in key.split("_")]
    return [one for one in drawn if all(test is not None and test(one) for test in tests)]


def kinds(drawn: Sequence[Drawn]) -> set[tuple[str, ...]]:
    """The kinds of objects: their classes with the names of their colours and their texts."""
    return {(one.type, one.text, *_color_names(one)) for one in drawn}


def _color_names(one: Drawn) -> Iterator[str]:
    return (name for name in COLOR_NAMES if one.colors and is_color(one.colors[-1], name))


def _test(part: str) -> Callable[[Drawn], bool] | None:
    """The test of one property; None for what is none."""
    if part in COLOR_NAMES:
        return lambda one: _has_color(one, part)
    if part in _DIRECTIONS:
        return _DIRECTIONS[part]
    if size := _SIZE.fullmatch(part):
        width, height = int(size[1]), int(size[2])
        return lambda one: _near_size(one.width, width) and _near_size(one.height, height)
    if name := _CLASS.fullmatch(part):
        return (lambda one: one.inside == name[2]) if name[1] else (lambda one: one.type == name[2])
    found = _VALUE.fullmatch(part)
    if found is None or found[1] not in _VALUES or (found[3] and found[1] != "text"):
        return None
    value = int(found[2])
    if found[3]:
        return lambda one: _has_number(one, value, int(found[3]))
    return lambda one: _VALUES[found[1]](one, value)


def _near_size(found: float, wanted: int) -> bool:
    return abs(found - wanted) <= max(1.0, 0.03 * wanted)


def _has_color(one: Drawn, name: str) -> bool:
    named = sum(is_color(color, name) for color in one.colors)
    return 0 < named >= _COLOR_SHARE * len(one.colors)


def _numbers(one: Drawn) -> list[float]:
    return [float(text) for text in _NUMBERS.findall(one.text)]


def _has_number(one: Drawn, least: int, most: int) -> bool:
    numbers = _numbers(one)
    return len(numbers) <= 1 + _OTHER_NUMBERS and any(least <= number <= most for number in numbers)
