"""Programs with the features that a prompt asks for, put together from their code."""

from __future__ import annotations

import random
import textwrap
from dataclasses import dataclass

from engine.tasks.phaser.problems import PromptRow
from engine.tasks.phaser.seeds.features import VALUES, Feature, Values, all_features, draw_values, features_by_name

_TEXTURE = """\
const swatch = this.make.graphics({ x: 0, y: 0 }, false);
swatch.fillStyle(0xffffff, 1);
swatch.fillRect(0, 0, 2, 2);
swatch.generateTexture('swatch', 2, 2);
swatch.destroy();
"""


@dataclass(frozen=True)
class Part:
    """A feature of a program with its values."""

    feature: Feature
    values: Values


@dataclass(frozen=True)
class Program:
    """The parts of a program, from which faults take away or change something.

    Args:
        parts: its features.
        width, height: of the game in pixels.
        background: its colour, as CSS.
        scene: name of the scene's class; empty for a scene as an object literal.
        preload, create, update: further code at the end of the methods.
        has_game: whether the game is made.
        has_scene: whether the configuration has the scene.
        has_texture: whether ``preload`` makes a texture.
        tail: code after the program.
    """

    parts: tuple[Part, ...]
    width: int = 800
    height: int = 600
    background: str = "#202830"
    scene: str = "MainScene"
    preload: str = ""
    create: str = ""
    update: str = ""
    has_game: bool = True
    has_scene: bool = True
    has_texture: bool = True
    tail: str = ""

    def source(self) -> str:
        """The program as JavaScript."""
        methods = {
            "preload()": (_TEXTURE if self.has_texture else "") + self._code("preload") + self.preload,
            "create()": "window.__signals__ = { frames: 0 };\n" + self._code("create") + self.create,
            "update(time, delta)": "window.__signals__.frames += 1;\n" + self._code("update") + self.update,
        }
        separator = "\n\n" if self.scene else ",\n\n"
        body = separator.join(f"{head} {{\n{textwrap.indent(code, '  ')}}}" for head, code in methods.items())
        if self.scene:
            head = f"  constructor() {{\n    super('{self.scene}');\n  }}\n\n"
            scene = f"class {self.scene} extends Phaser.Scene {{\n{head}{textwrap.indent(body, '  ')}\n}}\n"
        else:
            scene = f"const scene = {{\n{textwrap.indent(body, '  ')},\n}};\n"
        config = [
            "type: Phaser.AUTO,",
            f"width: {self.width},",
            f"height: {self.height},",
            f"backgroundColor: '{self.background}',",
            "physics: { default: 'arcade', arcade: { gravity: { y: 0 } } },",
        ]
        if self.has_scene:
            config.append(f"scene: {self.scene or 'scene'},")
        text = f"{scene}\nconst config = {{\n{textwrap.indent(chr(10).join(config), '  ')}\n}};\n"
        return text + ("\nnew Phaser.Game(config);\n" if self.has_game else "") + self.tail

    def _code(self, method: str) -> str:
        return "".join(
            part.values.source(getattr(part.feature, method), number) for number, part in enumerate(self.parts)
        )


def program_for(prompt: PromptRow, rng: random.Random) -> Program:
    """A program with the features that the tags and symbols of a prompt name.

    The values of the features are drawn at random.
    """
    features = [features_by_name()[name] for name in prompt.tags if name in features_by_name()]
    for feature in filter(None, map(feature_of, prompt.must_use_apis)):
        if feature not in features:
            features.append(feature)
    features.sort(key=lambda feature: feature.symbol not in prompt.must_use_apis)
    parts = [Part(feature, draw_values(rng)) for feature in features or [features_by_name()["rectangle"]]]
    return Program(
        tuple(parts),
        width=rng.choice((800, 960, 1024)),
        height=rng.choice((600, 640, 720)),
        background=rng.choice(("#202830", "#103020", "#301020", "#000000")),
        scene="MainScene" if "Phaser.Scene" in prompt.must_use_apis else rng.choice(("MainScene", "")),
    )


def feature_of(symbol: str) -> Feature | None:
    """The feature that shows a symbol; None if there is none."""
    name = VALUES["other_symbols"].get(symbol)
    if name is not None:
        return features_by_name()[name]
    return next((feature for feature in all_features() if feature.symbol == symbol), None)
