"""The reward: the vectors of the format, and its formulas by hand."""

import pytest

from engine.tasks.phaser.problems import GameFacts
from engine.tasks.phaser.reply import GameReply, Plan
from engine.tasks.phaser.reward import game_reward
from engine.tasks.phaser.validation.verdict import RuntimeOutcome
from tests.support.phaser import ALL_SIGNALS, validation

EASY, MEDIUM = GameFacts(difficulty="easy"), GameFacts(difficulty="medium")
LINES = "\n".join(["this.add.graphics();"] * 20)
PLAN = Plan(("a game",), ("Phaser.GameObjects.Graphics",), ("preload", "create", "update"))


def test_right_code_and_plan_give_1():
    verdict = validation(skipped=("runtime",), hits=("Phaser.Game", "x#y"), must_hits=("Phaser.GameObjects.Graphics",))
    reward = game_reward(verdict, GameReply(plan=PLAN, code=LINES), MEDIUM)
    assert reward.total == pytest.approx(1.0)
    assert reward.plan.components == {"structure": 1.0, "req_api": 1.0, "consistency": 1.0}
    row = reward.as_row()
    assert row["gates"] == {"parse_ok": True, "unsafe": False, "lint_ok": True, "runtime_ok": None}
    assert row["code"]["components"] == dict.fromkeys(
        ["functional", "api_accuracy", "runtime", "quality", "format"], 1.0
    )


def test_empty_code_is_paid():
    empty = validation(signals=(), hits=(), skipped=("runtime",), must_misses=("A", "B"))
    assert game_reward(empty, GameReply(), MEDIUM).total == pytest.approx(0.2975)
    empty = validation(signals=(), hits=(), skipped=("runtime",))
    assert game_reward(empty, GameReply(), MEDIUM).total == pytest.approx(0.6375)


def test_the_structure_without_preload():
    signals = tuple(name for name in ALL_SIGNALS if name != "has_preload")
    components = game_reward(validation(signals=signals), GameReply(code=LINES), MEDIUM).code.components
    assert components["functional"] == pytest.approx(0.5 * 0.95 + 0.5)


def test_by_hand():
    # functional: 0.5 (2/4) + 0.5 (1 - 1/2) = 0.5; api 3/4; lint failed; 10 of 20 lines; the run failed, so at most 0.2
    verdict = validation(
        signals=("has_new_phaser_game", "has_create"),
        hits=("a", "b", "c"),
        misses=("d",),
        must_hits=("x",),
        must_misses=("y",),
        failed=("eslint",),
        outcome=RuntimeOutcome.CREATE_ERROR,
    )
    plan = Plan((), ("Phaser.A", "graphics"), ("create", "then update"))
    reward = game_reward(verdict, GameReply(plan=plan, code="graphics();\n" * 10), EASY)
    assert reward.code.components == pytest.approx(
        {"functional": 0.5, "api_accuracy": 0.75, "runtime": 0.0, "quality": 0.0, "format": 0.5}
    )
    assert reward.code.score == pytest.approx(0.2)  # else 0.15 + 0.1875 + 0.05 = 0.3875
    # structure (0 + 1 + 1) / 3; req_api 0; consistency 0.7 * 1/2 + 0.3 * 1/2 = 0.5
    assert reward.plan.score == pytest.approx(0.3 * 2 / 3 + 0.5 * 0.5)
    assert reward.total == pytest.approx(0.15 * 0.45 + 0.85 * 0.2)


@pytest.mark.parametrize("stage", ["parse", "safety"])
def test_gates(stage):
    reward = game_reward(validation(failed=(stage,)), GameReply(plan=PLAN, code=LINES), MEDIUM)
    assert reward.total == 0
    assert reward.plan.score > 0
