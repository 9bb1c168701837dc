"""What one program earns that is sent for every prompt, without looking at it."""

import random
from typing import ClassVar

import pytest

from engine.records import Completion
from engine.tasks.phaser.options import GameOptions
from engine.tasks.phaser.problems import GameFacts, facts_of, problem_of, read_prompt
from engine.tasks.phaser.reply import GameReply, Plan
from engine.tasks.phaser.rewards.v1 import reward_v1
from engine.tasks.phaser.seeds.features import COLORS, all_features, draw_values, features_by_name, values_from
from engine.tasks.phaser.seeds.programs import Part, Program, program_for
from engine.tasks.phaser.seeds.prompt_seeds import make_prompt_seeds
from engine.tasks.phaser.task import PhaserTask
from engine.tasks.phaser.validation.verdict import Gate

pytestmark = pytest.mark.node

PROMPTS = [read_prompt(row, "row") for row in make_prompt_seeds(60, 11)]
FACTS = [facts_of(problem_of(row, "phaser").answer) for row in PROMPTS]
SYMBOLS = tuple(feature.symbol for feature in all_features())
PLAN = Plan(("a game",), SYMBOLS[:3], ("preload: none", "create: all", "update: all"))
MOST = 0.05  # above an empty reply, which earns nothing


def with_values(name, seed, **values):
    return Part(features_by_name()[name], values_from(values, random.Random(seed)))


def fixed_programs():
    calm = [feature for feature in all_features() if not feature.name.startswith("camera_")]
    yield "every feature", Program(tuple(Part(one, draw_values(random.Random(one.name))) for one in calm))
    for name in ("animation_play", "group", "static_group", "timer"):
        parts = [with_values(name, n, color=color, count=str(3 + n % 7)) for n, color in enumerate(COLORS)]
        yield f"{name} in every colour", Program(tuple(parts))
        yield f"{name} in eight colours", Program(tuple(parts[:8]))
    numbers = [with_values(name, n, number=str(5 + 10 * n)) for n, name in enumerate(["registry", "text_style"] * 4)]
    yield "eight numbers", Program((*numbers, with_values("random", 0, number="20")))
    yield "one label", Program((with_values("text", 0),))


def for_prompt(validation, facts):
    """The validation of a program for one prompt; the run is the same for all of them."""
    used = set(validation.api_usage.must_use_hits)
    split = {
        "must_use_hits": tuple(symbol for symbol in facts.must_use_apis if symbol in used),
        "must_use_misses": tuple(symbol for symbol in facts.must_use_apis if symbol not in used),
    }
    gates = {**validation.gates, "must_use": Gate(ok=not split["must_use_misses"])}
    usage = validation.api_usage.model_copy(update=split)
    return validation.model_copy(update={"api_usage": usage, "gates": gates})


def total(validation, code, facts):
    """The reward of a validated program for one prompt."""
    return reward_v1(for_prompt(validation, facts), GameReply(plan=PLAN, code=code), facts).total


class Known:
    """A validator of one program, whose run is known."""

    versions: ClassVar = {}

    def __init__(self, validation):
        self.validation = validation

    def validate(self, request):
        return for_prompt(self.validation, GameFacts(must_use_apis=request.must_use))


@pytest.mark.timeout(600)
def test_no_fixed_program_earns_more_than_an_empty_reply(validator):
    everything = GameOptions(skip_eslint=True)
    means = {}
    for name, program in fixed_programs():
        code = program.source()
        request = everything.request(code, GameFacts()).model_copy(update={"must_use": SYMBOLS})
        found = validator.validate(request)
        assert found.gates["runtime"].ok, (name, found.runtime.message)
        means[name] = sum(total(found, code, facts) for facts in FACTS) / len(FACTS)
    assert max(means.values()) <= MOST, means
    assert means["every feature"] > 0  # it is not refused for another reason


@pytest.mark.timeout(600)
def test_a_game_that_shows_every_feature_is_right_for_no_prompt(validator):
    code = dict(fixed_programs())["every feature"].source()
    request = GameOptions(skip_eslint=True).request(code, GameFacts()).model_copy(update={"must_use": SYMBOLS})
    task = PhaserTask(GameOptions(skip_eslint=True), Known(validator.validate(request)))
    problems = [problem_of(row, "phaser") for row in PROMPTS]
    text = f"```javascript\n{code}\n```"
    measured = [task.evaluate(task.parse(Completion(text=text), one), one) for one in problems]
    assert not any(one.is_correct for one in measured)
    assert any(all(one.detail["hints"].values()) and not one.detail["must_use_misses"] for one in measured)
    assert max(one.components["code"] for one in measured) < 0.1


@pytest.mark.timeout(600)
def test_programs_that_do_what_their_prompts_ask_earn_all(validator):
    options = GameOptions(skip_eslint=True)
    for prompt, facts in list(zip(PROMPTS, FACTS, strict=True))[::3]:
        code = program_for(prompt, random.Random(1))[0].source()
        reward = reward_v1(validator.validate(options.request(code, facts)), GameReply(plan=PLAN, code=code), facts)
        assert reward.code_paid > 0.99, (prompt.id, [one.name for one in facts.features], reward.cap_reason)
