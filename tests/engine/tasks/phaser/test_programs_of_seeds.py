"""Programs of the features and mock rollouts with the real validator: right ones pass, each fault fails its gate."""

import random

import pytest

from engine.records import Completion
from engine.reward_evaluator import task_total
from engine.tasks.phaser.hints import holds
from engine.tasks.phaser.mock.faults import FAULTS
from engine.tasks.phaser.mock.rollouts import make_rollouts
from engine.tasks.phaser.options import GameOptions
from engine.tasks.phaser.problems import GameFacts
from engine.tasks.phaser.seeds.features import all_features, draw_values
from engine.tasks.phaser.seeds.programs import Part, Program
from engine.tasks.phaser.seeds.prompt_seeds import make_prompt_seeds
from engine.tasks.phaser.task import PhaserTask

pytestmark = pytest.mark.node
_PER_PROGRAM = 3  # as many as a hard prompt asks for


def test_every_symbol_of_the_features_exists(api_index):
    assert [feature.symbol for feature in all_features() if not api_index.exists(feature.symbol)] == []


@pytest.mark.timeout(600)
def test_every_feature_passes_all_stages_and_shows_its_symbol_and_hints(validator):
    features = [feature for feature in all_features() if not feature.name.startswith("camera_")]
    features += [feature for feature in all_features() if feature.name.startswith("camera_")]  # they move the view
    for start in range(0, len(features), _PER_PROGRAM):
        parts: tuple[Part, ...] = ()
        for feature in features[start : start + _PER_PROGRAM]:
            colors = {part.values.en["color"] for part in parts}
            parts += (Part(feature, draw_values(random.Random(feature.name), without=colors)),)
        hints = [hint for part in parts for hint in part.values.hints(part.feature)]
        facts = GameFacts(must_use_apis=tuple(part.feature.symbol for part in parts), eval_hints=tuple(hints))
        found = validator.validate(GameOptions().request(Program(parts).source(), facts))
        names = [part.feature.name for part in parts]
        assert {stage: gate.ok for stage, gate in found.gates.items()} == dict.fromkeys(found.gates, True), (
            names, found.runtime.message, found.api_usage.must_use_misses, found.findings,
        )  # fmt: skip
        others = {
            part.feature.name: [
                hint for other in parts if other is not part for hint in other.values.hints(other.feature)
            ]
            for part in parts
        }
        failing = [
            hint
            for part in parts
            for hint in part.values.hints(part.feature)
            if not holds(hint, found.runtime.observed, others[part.feature.name])
        ]
        assert failing == [], names


WRONG_VALUES = {
    "text_style": ("setText('$number')", "setText('0')"),
    "layer": ("n < $count", "n < $count - 1"),
    "container_add": ("n < $count", "n < 1"),
    "rectangle": ("$width, $height, $color", "$width, $height, 0xffffff"),
    "ellipse": ("$width, $height, $color", "$height, $width * 3, $color"),
    "star": ("$radius / 2, $radius", "$radius, $radius * 2"),
    "add_event": ("shown$i.setText(String(ticks$i));", ""),
    "distance": ("apart$i.toFixed(0)", "'far'"),
    "registry": ("this.registry.get('goal')", "'goal'"),
}
"""What a feature's text asks for -> a program with the same symbols that does something else."""


def test_a_program_with_other_values_fails_a_condition(validator):
    by_name = {feature.name: feature for feature in all_features()}
    for name, (right, wrong) in WRONG_VALUES.items():
        feature, values = by_name[name], draw_values(random.Random(name))
        assert right in feature.create, name
        changed = feature.model_copy(update={"create": feature.create.replace(right, wrong)})
        facts = GameFacts(must_use_apis=(feature.symbol,), eval_hints=tuple(values.hints(feature)))
        for shown, expected in ((feature, True), (changed, False)):
            found = validator.validate(GameOptions().request(Program((Part(shown, values),)).source(), facts))
            assert found.gates["runtime"].ok, found.runtime.message
            results = [holds(hint, found.runtime.observed) for hint in facts.eval_hints]
            assert all(results) is expected, (name, results)


@pytest.mark.timeout(300)
def test_every_mock_rollout_ends_as_it_expects(validator):
    task = PhaserTask(validator=validator)
    seeds = make_prompt_seeds(60, 7)
    problems = {row["id"]: task.problem_from_row(row, "row") for row in seeds}
    totals: dict[tuple[str, str], list[float]] = {}
    seen = set()
    for row in make_rollouts(seeds, step=1, num_prompts=5, group_size=8, seed=2026, created_at=""):
        quality, problem = row["meta"]["quality"], problems[row["prompt_id"]]
        candidate = task.parse(Completion(text=row["text"]), problem)
        measured = task.evaluate(candidate, problem)
        failed = task.scored_fields(candidate, measured).failed_gates
        expected = row["meta"]["expected"]
        where = (quality, row["prompt_id"], failed, measured.remarks)
        assert set(expected["failed_gates"]) <= set(failed), where
        if measured.validation is not None:
            assert str(measured.validation.runtime.outcome) in expected["outcomes"], where
        if quality == "good":
            assert failed in ([], ()), where
            assert measured.is_correct is True, where
        seen.add(quality)
        totals.setdefault((row["prompt_id"], quality), []).append(task_total(task, measured.components))
    assert len(seen) >= 8
    for (prompt, quality), values in totals.items():
        good = totals.get((prompt, "good"))
        if good and quality != "good":
            assert min(good) > max(values), (prompt, quality)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [2026, 7])
def test_without_a_run_no_faulty_rollout_is_above_a_good_one(validator, seed):
    task = PhaserTask(GameOptions(skip_runtime=True), validator)
    seeds = make_prompt_seeds(60, seed)
    problems = {row["id"]: task.problem_from_row(row, "row") for row in seeds}
    totals: dict[str, dict[str, list[float]]] = {}
    for row in make_rollouts(seeds, step=1, num_prompts=12, group_size=8, seed=seed, created_at=""):
        problem = problems[row["prompt_id"]]
        measured = task.evaluate(task.parse(Completion(text=row["text"]), problem), problem)
        total = task_total(task, measured.components)
        totals.setdefault(row["prompt_id"], {}).setdefault(row["meta"]["quality"], []).append(total)
    assert len(totals) == 12
    for prompt, of_prompt in totals.items():
        least = min(of_prompt.pop("good", [1.0]))
        assert max(of_prompt.pop("runtime_crash", [0.0])) <= least, prompt
        assert max([0.0, *(max(values) for values in of_prompt.values())]) < least, (prompt, of_prompt)


def test_must_use_miss_uses_none_of_the_symbols_that_a_prompt_may_demand(validator):
    """Whatever one feature a prompt asks for; the programs differ in the feature that they show instead."""
    [miss] = [fault for fault in FAULTS if fault.name == "must_use_miss"]
    symbols = [feature.symbol for feature in all_features()]
    shown = {}
    for feature in all_features():
        asked = Program((Part(feature, draw_values(random.Random(feature.name))),))
        changed = miss.change(asked)
        assert [part.feature.name for part in changed.parts] != [feature.name]
        shown.setdefault(changed.source(), []).append(feature.symbol)
    assert sorted(symbol for each in shown.values() for symbol in each) == sorted(symbols)
    for source, demanded in shown.items():
        for start in range(0, len(demanded), 60):
            facts = GameFacts(must_use_apis=tuple(demanded[start : start + 60]))
            found = validator.validate(GameOptions(skip_eslint=True).request(source, facts))
            assert found.api_usage.must_use_hits == ()
            assert found.runtime.outcome == "ok"


def test_a_prompt_without_symbols_gets_no_must_use_miss():
    prompt = {"id": "a", "task": "Show something.", "must_use_apis": ["Phaser.Scene"], "eval_hints": []}
    rows = make_rollouts([prompt], step=1, num_prompts=1, group_size=300, seed=1, created_at="")
    kinds = {row["meta"]["quality"] for row in rows}
    assert kinds == {"good", *(fault.name for fault in FAULTS)} - {"must_use_miss"}


@pytest.mark.parametrize("below", ["polygon", "rectangle", "graphics_rectangle", "text"])
@pytest.mark.parametrize("label", ["intersects", "distance"])
def test_what_a_later_feature_draws_does_not_cover_the_label_of_an_earlier_one(validator, label, below):
    by_name = {feature.name: feature for feature in all_features()}
    largest = max((draw_values(random.Random(seed)) for seed in range(40)), key=lambda one: int(one.code["height"]))
    first = Part(by_name[label], draw_values(random.Random(label)))
    hints = first.values.hints(first.feature)
    found = validator.validate(
        GameOptions().request(Program((first, Part(by_name[below], largest))).source(), GameFacts(eval_hints=hints))
    )
    assert found.gates["runtime"].ok, found.runtime.message
    assert [hint for hint in hints if not holds(hint, found.runtime.observed)] == []
