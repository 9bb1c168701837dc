"""Near copies: programs that differ in what a player would not call another game."""

import time

import pytest

from engine.tasks.phaser.near_copies import copy_hash
from engine.tasks.phaser.options import GameOptions
from engine.tasks.phaser.task import PhaserTask

GAME = """
class Main extends Phaser.Scene {
  create() { const box = this.add.rectangle(10, 20, 5, 5, 0xff0000); this.tweens.add({ targets: box, x: 90 }); }
}
new Phaser.Game({ width: 800, height: 600, scene: Main });
"""


@pytest.mark.parametrize(
    "other",
    [
        GAME.replace("Main", "Level").replace("box", "hero"),
        GAME.replace("0xff0000", "0x00ff00").replace("800", "1.5e3").replace("90", ".5"),
        "// a comment\n" + GAME.replace("\n", "\n\n").replace("{ ", "{ /* why */ "),
    ],
)
def test_names_numbers_comments_and_layout_make_no_other_game(other):
    assert other != GAME
    assert copy_hash(other) == copy_hash(GAME)


@pytest.mark.parametrize(
    "other",
    [
        GAME.replace("rectangle", "circle"),
        GAME.replace("targets: box", "targets: this"),
        GAME.replace("const box =", "let box;"),
        GAME + "new Phaser.Game({});",
    ],
)
def test_other_calls_and_other_structure_make_one(other):
    assert other != GAME
    assert copy_hash(other) != copy_hash(GAME)


@pytest.mark.parametrize("hostile", ["/[/*]/" * 30_000, "`'" * 90_000, "'\\" * 60_000, "a." * 90_000, "/*" * 90_000])
def test_hostile_code_is_read_in_linear_time(hostile):
    started = time.process_time()
    copy_hash(hostile)
    assert time.process_time() - started < 2


def test_copies_are_paid_alike_and_less_than_a_game_of_its_own():
    task = PhaserTask(GameOptions(copy_penalty=0.1))
    assert [task.copy_factor(copies) for copies in (1, 2, 5)] == pytest.approx([1.0, 0.95, 0.92])
    assert PhaserTask(GameOptions(reward_version="v0")).copy_factor(5) == 1.0
