"""Conditions on a run."""

import pytest

from engine.tasks.phaser.hints import holds, is_condition
from tests.support.phaser import seen

RUN = seen(
    {"Rectangle": 3, "Text": 1},
    bodies=2,
    timers_fired=4,
    moved=1,
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


def test_signals_of_any_shape():
    for value in (None, 3, "frames", [1]):
        assert holds("signals.frames", seen(signals=value)) is False
