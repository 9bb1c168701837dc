"""Which colours a name can mean."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from types import MappingProxyType

_HUES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "red": (340, 20),
        "orange": (10, 48),
        "yellow": (40, 72),
        "green": (65, 175),
        "turquoise": (155, 205),
        "blue": (185, 265),
        "purple": (250, 325),
        "pink": (290, 15),
        "brown": (0, 48),
    }
)
"""Degrees of the colours that a name can mean. The ranges overlap, as people name colours differently."""
_GREY_SATURATION, _PINK_VALUE, _BROWN_VALUE = 0.25, 0.6, 0.87

COLOR_NAMES = frozenset({*_HUES, "grey", "white"})
"""The names that :func:`is_color` knows."""


def is_color(value: int, name: str) -> bool:
    """Whether a colour can be called by one of the names of :data:`COLORS` in ``seeds.features``.

    Args:
        value: ``0xRRGGBB``; negative: no colour, which has no name.
        name: red, orange, yellow, green, turquoise, blue, purple, pink, brown, grey or white.
    """
    if value < 0:
        return False
    hue, saturation, brightness = colorsys.rgb_to_hsv(value // 65536 / 255, value // 256 % 256 / 255, value % 256 / 255)
    if name == "white":
        return saturation <= 0.1 and brightness >= 0.9
    if name == "grey":
        return saturation <= _GREY_SATURATION and 0.1 < brightness < 1
    if name not in _HUES or saturation < 0.1 or brightness < 0.15:
        return False
    if (name == "pink" and brightness < _PINK_VALUE) or (name == "brown" and brightness > _BROWN_VALUE):
        return False
    low, high = _HUES[name]
    degrees = hue * 360
    return low <= degrees <= high if low < high else degrees >= low or degrees <= high
