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
``hints``
    observations of a run that has it, as :mod:`engine.tasks.phaser.hints` reads them; values in braces.
``preload``, ``create``, ``update``
    JavaScript of the scene's methods. ``$name`` is a value; ``$i`` makes names unique in a game.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from engine.tasks.phaser.colors import is_color

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

_RUN_MS = 1000
"""How long a program runs when its conditions are checked: 60 frames."""

_DERIVED: Mapping[str, Callable[[Mapping[str, str]], int]] = MappingProxyType(
    {
        "diameter": lambda of: 2 * int(of["radius"]),
        "board": lambda of: 24 * int(of["count"]),
        "map": lambda of: 16 * int(of["count"]),
        "zoom": lambda of: 100 + int(of["count"]),
        "step_speed": lambda of: 60 * int(of["step"]),
        "slide_speed": lambda of: round(1000 * int(of["width"]) / int(of["duration"])),
        "number_most": lambda of: int(of["number"]) + 9,
        "ticks_least": lambda of: max(1, _RUN_MS // int(of["delay"]) - 3),
        "ticks_most": lambda of: _RUN_MS // int(of["delay"]) + 1,
    }
)
"""Numbers that follow from others, for texts and conditions."""

_PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        "color": "|".join([*COLORS, *(chinese for chinese, _ in COLORS.values())]),
        "direction": "|".join([*DIRECTIONS, *(chinese for chinese, _, _ in DIRECTIONS.values())]),
        "key": "|".join(KEYS),
    }
)
"""Regular expressions of the values that are no numbers."""

_NUMBER = r"[0-9]{1,6}(?:[.][0-9]{1,6})?"

_SCALES = ("1.2", "1.5", "1.8", "2", "2.5", "3")


class Feature(BaseModel):
    """One entry; see the module."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    symbol: str = Field(pattern=r"^Phaser\.")
    modules: list[str] = Field(min_length=1)
    en: str
    zh: str
    hints: list[str] = Field(min_length=1)
    preload: str = ""
    create: str
    update: str = ""


@dataclass(frozen=True)
class Values:
    """The values of a feature in one game: for texts in each language, for hints, and for code."""

    en: Mapping[str, str]
    zh: Mapping[str, str]
    code: Mapping[str, str]

    def text(self, feature: Feature, language: Language) -> str:
        """The clause that describes the feature."""
        return (feature.en.format_map(self.en)) if language == "en" else feature.zh.format_map(self.zh)

    def named(self, feature: Feature) -> dict[str, str]:
        """The values that the text of the feature has, by their names."""
        names = [name for _, name, _, _ in string.Formatter().parse(feature.en) if name]
        return {name: self.en[name] for name in dict.fromkeys(("radius" if n == "diameter" else n) for n in names)}

    def hints(self, feature: Feature) -> list[str]:
        """The observations that show the feature."""
        return [hint.format_map(self.en) for hint in feature.hints]

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
        without: colours that are not drawn, nor are those that could be called so, unless no other is left.
    """
    numbers = {name: str(rng.randrange(low, high + 1, step)) for name, (low, high, step) in _RANGES.items()}
    colors = [color for color in COLORS if not any(_is_alike(color, other) for other in without)] or list(COLORS)
    color, direction, key = rng.choice(colors), rng.choice(list(DIRECTIONS)), rng.choice(KEYS)
    return _values({**numbers, "color": color, "direction": direction, "scale": rng.choice(_SCALES), "key": key})


def _is_alike(one: str, other: str) -> bool:
    """Whether the colour of one name can be called by the other."""
    return any(is_color(int(COLORS[a][1], 16), b) for a, b in ((one, other), (other, one)))


def values_from(named: Mapping[str, str], rng: random.Random) -> Values:
    """The values that a row of a prompt has for a feature; those that it lacks, or has in a wrong form, are drawn."""
    known = {
        name: value
        for name, value in named.items()
        if re.fullmatch(_PATTERNS.get(name, _NUMBER), value) and (name != "color" or value in COLORS)
    }
    if known.get("direction", "up") not in DIRECTIONS:
        del known["direction"]
    return _values({**draw_values(rng).en, **known})


def values_in(feature: Feature, text: str, rng: random.Random) -> Values | None:
    """The values with which a text describes a feature; those that it does not name are drawn.

    Returns:
        None if the text does not describe the feature.
    """
    for clause, names in (
        (feature.en, {}),
        (feature.zh, {chinese: name for name, (chinese, *_) in (*COLORS.items(), *DIRECTIONS.items())}),
    ):
        found = _clause_pattern(clause).search(text)
        if found is not None:
            named = {name: names.get(value, value) for name, value in found.groupdict().items()}
            if "diameter" in named:
                named["radius"] = str(round(float(named["diameter"])) // 2)
            return _values({**draw_values(rng).en, **named})
    return None


@cache
def _clause_pattern(clause: str) -> re.Pattern[str]:
    """Matches a clause with values; each value is a group, and the same value is the same text."""
    pattern, seen = "", set()
    for literal, name, _, _ in string.Formatter().parse(clause):
        pattern += re.escape(literal)
        if name in seen:
            pattern += f"(?P={name})"
        elif name:
            seen.add(name)
            pattern += f"(?P<{name}>{_PATTERNS.get(name, _NUMBER)})"
    return re.compile(pattern)


def _values(named: Mapping[str, str]) -> Values:
    """Values by their names in English."""
    color_zh, color_code = COLORS[named["color"]]
    direction_zh, dx, dy = DIRECTIONS[named["direction"]]
    shared = {**named, **{name: str(find(named)) for name, find in _DERIVED.items()}}
    return Values(
        en=shared,
        zh={**shared, "color": color_zh, "direction": direction_zh},
        code={**shared, "color": color_code, "dx": str(dx), "dy": str(dy)},
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
