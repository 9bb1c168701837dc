"""Reward v1: by hand, and every hole of v0 closed."""

import pytest

from engine.tasks.phaser.problems import GameFacts
from engine.tasks.phaser.reply import GameReply, Plan
from engine.tasks.phaser.rewards.v0 import reward_v0
from engine.tasks.phaser.rewards.v1 import RUN_CAPS, hint_results, reward_v1
from engine.tasks.phaser.validation.verdict import RuntimeOutcome
from tests.support.phaser import ALL_SIGNALS, seen, validation

SYMBOLS = ("Phaser.GameObjects.Rectangle", "Phaser.Tweens.Tween")
FACTS = GameFacts(difficulty="medium", must_use_apis=SYMBOLS, eval_hints=("objects.Rectangle >= 1", "moved", "做"))
PLAN = Plan(("a box that moves",), SYMBOLS, ("preload: none", "create: a box", "update: none"))
CODE = "new Phaser.Game({});\n" * 5
REPLY = GameReply(plan=PLAN, code=CODE)
RUN = seen({"Rectangle": 1}, moved=1, constructed={"Rectangle": 1, "Tween": 1})


def right(**changes):
    values = {"must_hits": SYMBOLS, "observed": RUN}
    return validation(**(values | changes))


def test_a_right_game_gives_1():
    reward = reward_v1(right(), REPLY, FACTS)
    assert reward.total == pytest.approx(1.0)
    assert reward.cap_reason == ""
    assert set(reward.evaluated) == {"parse", "safety", "signals", "eslint", "api", "must_use", "runtime"}


def test_by_hand():
    # must_use 1/2, hints 1/2, api 3/4, structure 3/4, lint 0: 0.30 + 0.125 + 0.10 + 0.1125 + 0.0375 = 0.675
    found = right(
        must_hits=SYMBOLS[:1],
        must_misses=SYMBOLS[1:],
        hits=("Phaser.Game", "a.b", "c.d"),
        misses=("e.f",),
        signals=("has_new_phaser_game", "has_scene_in_config", "has_create"),
        failed=("eslint",),
        observed=seen({"Rectangle": 2}),
    )
    reward = reward_v1(found, GameReply(code=CODE), FACTS)
    assert reward.code.score == pytest.approx(0.675)
    assert reward.cap == pytest.approx(0.25 + 0.75 * 0.5)  # half of what was asked for
    assert reward.cap_reason == "not_what_was_asked"
    assert reward.total == pytest.approx(0.9 * 0.625)


def test_plan_by_hand():
    # planned: Tween is used, "Phaser.Foo" is not, "add" is no symbol: 1/3
    # asked: Tween of two: 1/2; the method update is missing: 1/2
    plan = Plan(("x game",), ("Phaser.Tweens.Tween", "Phaser.Foo", "add"), ("create it", "update it"))
    found = right(signals=("has_new_phaser_game", "has_scene_in_config", "has_preload", "has_create"))
    reward = reward_v1(found, GameReply(plan=plan, code=CODE), FACTS)
    assert reward.plan.components["consistency"] == pytest.approx((1 / 3 + 1 / 2 + 1 / 2) / 3)
    assert reward.plan.components["structure"] == pytest.approx(2 / 3)  # two steps are too few


# The holes of v0, each with the score that v0 gives


def test_hole_empty_code_is_paid():
    empty = validation(signals=(), hits=(), skipped=("runtime",))
    assert reward_v0(empty, GameReply(plan=PLAN), GameFacts()).total > 0.6
    assert reward_v1(empty, GameReply(plan=PLAN), GameFacts()).total == 0
    assert reward_v1(empty, GameReply(plan=PLAN, code=" \n"), GameFacts()).total == 0


def test_hole_comments_pay_for_symbols_and_plans():
    code = "// Phaser.GameObjects.Rectangle Phaser.Tweens.Tween preload create update\n" * 20
    comments = validation(signals=(), hits=(), must_misses=SYMBOLS, outcome=RuntimeOutcome.NO_GAME)
    reply = GameReply(plan=PLAN, code=code)
    assert reward_v0(comments, reply, FACTS).plan.components["consistency"] == pytest.approx(0.7)
    reward = reward_v1(comments, reply, FACTS)
    assert reward.total <= 0.05
    assert reward.plan.components["consistency"] == pytest.approx((0 + 1 + 0) / 3)


def test_hole_padding_to_20_lines():
    short, long = (GameReply(plan=PLAN, code="new Phaser.Game({});" + "\n;" * lines) for lines in (1, 30))
    assert reward_v0(right(), long, FACTS).total > reward_v0(right(), short, FACTS).total
    assert reward_v1(right(), long, FACTS).total == reward_v1(right(), short, FACTS).total


def test_hole_generic_words_as_planned_symbols():
    code = "this.add.rectangle(); this.tweens.add();"
    words, symbols = (
        GameReply(plan=Plan(("a game",), apis, PLAN.steps), code=code) for apis in (("add", "this", "rect"), SYMBOLS)
    )
    assert reward_v0(right(), words, FACTS).plan.score == pytest.approx(1.0)
    assert reward_v1(right(), words, FACTS).plan.score < 0.7
    assert reward_v1(right(), symbols, FACTS).plan.score == pytest.approx(1.0)


def test_hole_a_skipped_run_counts_as_passed():
    skipped = right(skipped=("runtime",), observed=None)
    assert reward_v0(skipped, REPLY, FACTS).code.components["runtime"] == 1.0
    reward = reward_v1(skipped, REPLY, FACTS)
    assert reward.code.components["runs"] is None
    assert reward.code.components["hints"] is None
    assert "runtime" not in reward.evaluated
    # the weights of the other components are shared: api 0.15 of 0.5
    wrong = reward_v1(right(skipped=("runtime",), hits=("a",), misses=("b",)), GameReply(code=CODE), FACTS)
    assert wrong.code.score == pytest.approx(1 - 0.5 * 0.15 / 0.5)


def test_hole_a_crash_ties_with_a_right_game():
    crash = right(outcome=RuntimeOutcome.CREATE_ERROR, observed=seen({}), must_hits=SYMBOLS)
    assert reward_v1(crash, REPLY, FACTS).total <= 0.2
    assert reward_v1(right(), REPLY, FACTS).total > 0.9


def test_hole_no_calls_are_accurate_calls():
    silent = validation(hits=(), must_hits=SYMBOLS, observed=RUN)
    assert reward_v0(silent, REPLY, FACTS).code.components["api_accuracy"] == 1.0
    assert reward_v1(silent, REPLY, FACTS).code.components["api"] == 0.0


def test_hole_update_makes_up_for_a_missing_preload():
    signals = tuple(name for name in ALL_SIGNALS if name != "has_preload")
    no_update = tuple(name for name in ALL_SIGNALS if name != "has_update")
    assert reward_v1(right(signals=signals), REPLY, FACTS).code.components["structure"] == 0.75
    assert reward_v1(right(signals=no_update), REPLY, FACTS).code.components["structure"] == 1.0


# What else must not pay


@pytest.mark.parametrize("outcome", [one for one in RuntimeOutcome if one in RUN_CAPS])
def test_every_failed_run_is_capped(outcome):
    total = reward_v1(right(outcome=outcome), REPLY, FACTS).total
    assert total <= RUN_CAPS[outcome] + 1e-9
    late = (RuntimeOutcome.PRELOAD_ERROR, RuntimeOutcome.CREATE_ERROR, RuntimeOutcome.UPDATE_ERROR)
    assert outcome in late or total <= 0.05


def test_the_cap_of_an_error_rises_with_the_share_of_what_was_asked_for():
    # half of the symbols, half of the conditions: 0.05 + 0.5 * (0.3 - 0.05)
    found = {"outcome": RuntimeOutcome.UPDATE_ERROR, "observed": seen({"Rectangle": 1})}
    half = right(must_hits=SYMBOLS[:1], must_misses=SYMBOLS[1:], **found)
    assert reward_v1(half, REPLY, FACTS).cap == pytest.approx(0.175)
    none = right(must_hits=(), must_misses=SYMBOLS, outcome=RuntimeOutcome.UPDATE_ERROR, observed=seen({"Text": 1}))
    assert reward_v1(none, REPLY, FACTS).cap == pytest.approx(0.05)
    assert reward_v1(right(**found, must_hits=()), REPLY, GameFacts()).cap == pytest.approx(0.05)


def test_every_outcome_that_is_no_success_has_a_cap():
    without = {RuntimeOutcome.OK, RuntimeOutcome.SKIPPED, RuntimeOutcome.INFRA_ERROR}
    assert set(RuntimeOutcome) - set(RUN_CAPS) == without


def test_a_scene_that_shows_nothing_and_a_constant_game():
    nothing = right(must_hits=(), must_misses=SYMBOLS, observed=seen({}))
    assert reward_v1(nothing, REPLY, FACTS).total <= 0.05
    constant = right(must_hits=(), must_misses=SYMBOLS, observed=seen({"Text": 1}))
    assert reward_v1(constant, REPLY, FACTS).total <= 0.25
    assert reward_v1(constant, REPLY, FACTS).cap_reason == "not_what_was_asked"


@pytest.mark.parametrize("stage", ["parse", "safety"])
def test_gates(stage):
    reward = reward_v1(right(failed=(stage,)), REPLY, FACTS)
    assert reward.total == 0
    assert reward.cap_reason in ("parse_failed", "unsafe")


def test_without_a_run_a_game_and_a_scene_are_needed():
    for missing in ("has_new_phaser_game", "has_scene_in_config"):
        signals = tuple(name for name in ALL_SIGNALS if name != missing)
        found = right(skipped=("runtime",), signals=signals)
        assert reward_v1(found, REPLY, FACTS).total <= 0.05


@pytest.mark.parametrize("stage", ["eslint", "api"])
def test_without_a_run_a_fault_that_reading_finds_is_below_every_program_without_one(stage):
    faulty = reward_v1(right(failed=(stage,), skipped=("runtime",)), REPLY, FACTS)
    assert (faulty.total, faulty.cap_reason) == (0.5, f"{stage}_failed")
    least = right(skipped=("runtime",), signals=("has_new_phaser_game", "has_scene_in_config"))
    assert reward_v1(least, GameReply(code=REPLY.code), FACTS).total > 0.5
    assert reward_v1(right(failed=(stage,)), REPLY, FACTS).cap == 1.0


def test_without_a_run_a_plan_lifts_no_program_above_another():
    found, short = right(skipped=("runtime",)), GameReply(plan=Plan(steps=("create",)), code=REPLY.code)
    assert reward_v1(found, short, FACTS).total == reward_v1(found, REPLY, FACTS).total == 1.0
    assert reward_v1(found, short, FACTS).plan.score < reward_v1(found, REPLY, FACTS).plan.score
    assert reward_v1(found, GameReply(code=REPLY.code), FACTS).total == pytest.approx(0.9)
    assert reward_v1(right(), short, FACTS).total < 1.0


def test_hints_are_read_from_the_run():
    assert hint_results(right(), FACTS) == {"objects.Rectangle >= 1": True, "moved": True}
    assert hint_results(right(skipped=("runtime",)), FACTS) == {}
    crash = right(outcome=RuntimeOutcome.CREATE_ERROR, observed=None)
    assert hint_results(crash, FACTS) == {"objects.Rectangle >= 1": False, "moved": False}
