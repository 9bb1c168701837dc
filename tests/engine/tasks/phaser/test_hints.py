"""Conditions on a run."""

import pytest

from engine.tasks.phaser.colors import is_color
from engine.tasks.phaser.hints import holds, is_condition
from engine.tasks.phaser.seeds.features import COLORS
from engine.tasks.phaser.validation.observed import Shape
from tests.support.phaser import seen

RUN = seen(
    {"Rectangle": 3, "Text": 1},
    bodies=2,
    timers_fired=4,
    moved=1,
    changed_texts=2,
    inside={"Layer": 4},
    texts=("Score: 40", "-7.50 m", "game over"),
    shapes=(Shape(color=0x26C6DA, width=100, height=40), Shape(color=0x00CED1, width=101, height=39), Shape()),
    textures=("a", "b"),
    keys=("LEFT",),
    input_events=("pointerdown",),
    constructed={"Tween": 2},
    reacted_to_keys=True,
    signals={"frames": 60, "lives": 3},
    signals_at_start={"frames": 1, "lives": 3},
)


@pytest.mark.parametrize(
    ("hint", "result"),
    [
        ("objects.Rectangle >= 3", True),
        ("objects.Rectangle >= 4", False),
        ("objects.Sprite", False),
        ("display_list == 4", True),
        ("display_list>4", False),
        ("timers_fired", True),
        ("collisions", False),
        ("moved <= 1", True),
        ("bodies < 2", False),
        ("textures >= 2", True),
        ("keys.LEFT", True),
        ("keys.UP", False),
        ("input_events.pointerdown", True),
        ("constructed.Tween >= 2", True),
        ("reacted_to_keys", True),
        ("reacted_to_pointer", False),
        ("signals.lives", True),
        ("signals.score", False),
        ("signal_changes.frames", True),
        ("signal_changes.lives", False),
        ("scenes >= 1", True),
        ("changed_texts >= 2", True),
        ("inside.Layer >= 4", True),
        ("inside.Layer >= 5", False),
        ("inside.Container", False),
        ("texts.40", True),
        ("texts.4", False),
        ("texts.7", False),
        ("texts.50", False),
        ("texts.over", True),
        ("texts.ove", False),
        ("shapes.turquoise >= 2", True),
        ("shapes.turquoise >= 3", False),
        ("shapes.red", False),
        ("shapes.unknown", False),
        ("sizes.100x40 >= 2", True),
        ("sizes.100x42", False),
        ("sizes.40x100", False),
        ("sizes.100", False),
    ],
)
def test_conditions(hint, result):
    assert is_condition(hint)
    assert holds(hint, RUN) is result


@pytest.mark.parametrize(
    "hint",
    [
        "检查是否有矩形",
        "the player moves",
        "objects",
        "moved.x",
        "unknown >= 1",
        "moved >= x",
        "",
        "moved >= 1; 1",
        "__class__",
    ],
)
def test_other_texts_are_no_conditions(hint):
    assert not is_condition(hint)
    assert holds(hint, RUN) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [("40", True), ("40.0", True), ("40px", True), ("x40", True), ("40.", True), ("40.5", False), ("140", False),
     ("0.40", False), ("400", False), ("4 0", False)],
)  # fmt: skip
def test_a_number_in_a_text(text, shown):
    assert holds("texts.40", seen(texts=(text,))) is shown


CSS = {
    "red": "ff0000 dc143c b22222 8b0000 e53935 cd5c5c ff4444 f44336",
    "orange": "ffa500 ff8c00 fb8c00 ff7f50 ff9800 ff6600",
    "yellow": "ffff00 ffd700 fdd835 ffeb3b f0e68c ffff66",
    "green": "008000 00ff00 32cd32 228b22 2e8b57 6b8e23 90ee90 4caf50 00ff7f",
    "turquoise": "40e0d0 00ced1 48d1cc afeeee 00ffff 1abc9c 26c6da 00bcd4 20b2aa",
    "blue": "0000ff 1e90ff 4169e1 000080 87ceeb 6495ed 2196f3 3498db 00bfff",
    "purple": "800080 9370db 8a2be2 9932cc 9b59b6 9c27b0 6a0dad 663399 ff00ff",
    "pink": "ffc0cb ff69b4 ff1493 f06292 ffb6c1 e91e63 db7093",
    "brown": "8b4513 a0522d 795548 a52a2a 964b00 5c4033 cd853f d2691e",
    "grey": "808080 a9a9a9 d3d3d3 696969 708090 778899 9e9e9e cccccc 333333",
}


def test_colours_that_programs_use_for_a_name():
    refused = [
        (name, value) for name, values in CSS.items() for value in values.split() if not is_color(int(value, 16), name)
    ]
    assert refused == []
    for name, (_, value) in COLORS.items():
        assert is_color(int(value, 16), name)


def test_colours_are_told_apart():
    opposite = {"red": "turquoise", "orange": "blue", "yellow": "purple", "green": "red", "turquoise": "orange",
                "blue": "yellow", "purple": "green", "pink": "green", "brown": "blue", "grey": "red"}  # fmt: skip
    for name, other in opposite.items():
        wrong = [value for value in CSS[other].split() if is_color(int(value, 16), name)]
        assert wrong == [], name
    assert not any(is_color(value, name) for name in CSS for value in (0xFFFFFF, 0x000000, -1))


def test_signals_of_any_shape():
    for value in (None, 3, "frames", [1]):
        assert holds("signals.frames", seen(signals=value)) is False
