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

VALUES: Mapping[str, Any] = MappingProxyType(
    yaml.safe_load(Path(__file__).with_name("values.yaml").read_text(encoding="utf-8"))
)
"""The values that features may have."""


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

    def source(self, template: str, number: int) -> str:
        """The code of a feature.

        Args:
            template: its code for one method.
            number: the number of the feature in the game; selects its position on the screen.
        """
        row = number % 4
        position = {"i": str(number), "x": str(120 + 60 * row + 40 * (number // 4)), "y": str(140 + 110 * row)}
        return string.Template(template).substitute({**self.code, **position})


def draw_values(rng: random.Random, without: Collection[str] = ()) -> Values:
    """Values at random, one for every name.

    Args:
        rng: the generator.
        without: colours that are not drawn.
    """
    named = {name: str(rng.randrange(low, high + 1, step)) for name, (low, high, step) in VALUES["ranges"].items()}
    color = rng.choice([color for color in VALUES["colors"] if color not in without])
    direction = rng.choice(list(VALUES["directions"]))
    named |= {"scale": rng.choice(VALUES["scales"]), "key": rng.choice(VALUES["keys"])}
    named |= {"diameter": str(2 * int(named["radius"])), "number_most": str(int(named["number"]) + 9)}
    color_zh, color_code = VALUES["colors"][color]
    direction_zh, dx, dy = VALUES["directions"][direction]
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
