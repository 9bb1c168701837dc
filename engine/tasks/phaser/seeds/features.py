"""The features that games are made of.

A feature is an entry of ``features/*.yaml``:

``name``
    unique.
``symbol``
    the symbol of Phaser's API that it shows; every feature has another.
``modules``
    the parts of Phaser that it belongs to.
``en``, ``zh``
    what it is, as a clause with values in braces.
``preload``, ``create``, ``update``
    JavaScript of the scene's methods. ``$name`` is a value; ``$i`` makes names unique in a game.
"""

from __future__ import annotations

import random
import string
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

Language = Literal["en", "zh"]

_FOLDER = Path(__file__).resolve().parent / "features"

COLORS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "red": ("红色", "0xe53935"),
        "orange": ("橙色", "0xfb8c00"),
        "yellow": ("黄色", "0xfdd835"),
        "green": ("绿色", "0x43a047"),
        "turquoise": ("青色", "0x26c6da"),
        "blue": ("蓝色", "0x1e88e5"),
        "purple": ("紫色", "0x8e24aa"),
        "pink": ("粉色", "0xf06292"),
        "brown": ("棕色", "0x795548"),
        "grey": ("灰色", "0x9e9e9e"),
    }
)
"""Name in English -> name in Chinese, and value."""

DIRECTIONS: Mapping[str, tuple[str, int, int]] = MappingProxyType(
    {"right": ("右", 1, 0), "left": ("左", -1, 0), "down": ("下", 0, 1), "up": ("上", 0, -1)}
)
"""Name in English -> name in Chinese, and the unit vector on the screen."""

KEYS = ("LEFT", "RIGHT", "UP", "DOWN", "SPACE")

_RANGES: Mapping[str, tuple[int, int, int]] = MappingProxyType(
    {
        "width": (40, 200, 4),
        "height": (20, 100, 4),
        "radius": (12, 60, 2),
        "count": (3, 9, 1),
        "number": (5, 95, 5),
        "speed": (60, 300, 10),
        "gravity": (200, 800, 20),
        "step": (1, 6, 1),
        "delay": (100, 600, 20),
        "duration": (200, 900, 20),
        "angle": (15, 345, 15),
    }
)
"""Numbers: lowest, highest, step."""

_SCALES = ("1.2", "1.5", "1.8", "2", "2.5", "3")


class Feature(BaseModel):
    """One entry; see the module."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    symbol: str = Field(pattern=r"^Phaser\.")
    modules: list[str] = Field(min_length=1)
    en: str
    zh: str
    preload: str = ""
    create: str
    update: str = ""


@dataclass(frozen=True)
class Values:
    """The values of a feature in one game: for texts in each language, and for code."""

    en: Mapping[str, str]
    zh: Mapping[str, str]
    code: Mapping[str, str]

    def text(self, feature: Feature, language: Language) -> str:
        """The clause that describes the feature."""
        return (feature.en.format_map(self.en)) if language == "en" else feature.zh.format_map(self.zh)

    def source(self, template: str, place: int) -> str:
        """The code of a feature.

        Args:
            template: its code for one method.
            place: the number of the feature in the game; selects its position on the screen.
        """
        row = place % 4
        position = {"i": str(place), "x": str(120 + 60 * row + 40 * (place // 4)), "y": str(140 + 110 * row)}
        return string.Template(template).substitute({**self.code, **position})


def draw_values(rng: random.Random, without: Collection[str] = ()) -> Values:
    """Values at random, one for every name.

    Args:
        rng: the generator.
        without: colours that are not drawn.
    """
    named = {name: str(rng.randrange(low, high + 1, step)) for name, (low, high, step) in _RANGES.items()}
    color = rng.choice([color for color in COLORS if color not in without])
    direction, scale, key = rng.choice(list(DIRECTIONS)), rng.choice(_SCALES), rng.choice(KEYS)
    named |= {"diameter": str(2 * int(named["radius"])), "number_most": str(int(named["number"]) + 9)}
    named |= {"scale": scale, "key": key}
    color_zh, color_code = COLORS[color]
    direction_zh, dx, dy = DIRECTIONS[direction]
    return Values(
        en={**named, "color": color, "direction": direction},
        zh={**named, "color": color_zh, "direction": direction_zh},
        code={**named, "color": color_code, "direction": direction, "dx": str(dx), "dy": str(dy)},
    )


@cache
def all_features() -> tuple[Feature, ...]:
    """The features of all files, in the order of the files' names."""
    rows: list[dict[str, Any]] = []
    for path in sorted(_FOLDER.glob("*.yaml")):
        rows += yaml.safe_load(path.read_text(encoding="utf-8"))
    return tuple(Feature.model_validate(row) for row in rows)


@cache
def features_by_name() -> Mapping[str, Feature]:
    """The features by name."""
    return MappingProxyType({feature.name: feature for feature in all_features()})
