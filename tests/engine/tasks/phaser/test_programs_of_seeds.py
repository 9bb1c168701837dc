"""Programs of the features and mock rollouts with the real validator: right ones pass, each fault fails its gate."""

import random

import pytest

from engine.records import Completion
from engine.reward_evaluator import task_total
from engine.tasks.phaser.mock.faults import FAULTS, GOOD
from engine.tasks.phaser.mock.rollouts import make_rollouts, reply_text
from engine.tasks.phaser.options import GameOptions
from engine.tasks.phaser.problems import GameFacts, read_prompt
from engine.tasks.phaser.seeds.features import all_features, draw_values
from engine.tasks.phaser.seeds.programs import Part, Program
from engine.tasks.phaser.seeds.prompt_seeds import make_prompt_seeds
from engine.tasks.phaser.task import PhaserTask
from tests.support.phaser import find

pytestmark = pytest.mark.node
_PER_PROGRAM = 20  # more than the three that a hard prompt asks for: to run a program costs more than its features


def test_every_symbol_of_the_features_exists(api_index):
    assert [feature.symbol for feature in all_features() if not find(api_index, feature.symbol)] == []


@pytest.mark.timeout(600)
def test_every_feature_passes_all_stages(validator):
    # Those that move the view are apart from the others. So are those that read input: their programs are run twice.
    features = sorted(
        all_features(),
        key=lambda feature: (feature.name.startswith("camera_"), "input" in feature.create + feature.update),
    )
    for start in range(0, len(features), _PER_PROGRAM):
        parts = tuple(
            Part(feature, draw_values(random.Random(feature.name)))
            for feature in features[start : start + _PER_PROGRAM]
        )
        facts = GameFacts(must_use_apis=tuple(part.feature.symbol for part in parts))
        verdict = validator.validate(GameOptions().request(Program(parts).source(), facts))
        names = [part.feature.name for part in parts]
        assert {stage: gate.ok for stage, gate in verdict.gates.items()} == dict.fromkeys(verdict.gates, True), (
            names, verdict.runtime.message, verdict.api_usage.must_use_misses, verdict.findings,
        )  # fmt: skip


@pytest.mark.timeout(300)
def test_a_mock_rollout_of_each_quality_ends_as_it_expects(validator):
    """To a hard prompt, which asks for three features. Without a run, other prompts get them too; see below."""
    task = PhaserTask(validator=validator)
    rng = random.Random(2026)
    row = next(row for row in make_prompt_seeds(60, 7) if row["difficulty"] == "hard")
    problem, prompt = task.problem_from_row(row, "row"), read_prompt(row, "row")
    totals = {}
    for fault in (GOOD, *FAULTS):
        candidate = task.parse(Completion(text=reply_text(prompt, fault, rng)), problem)
        measured = task.evaluate(candidate, problem)
        failed = task.scored_fields(candidate, measured).failed_gates
        where = (fault.name, failed, measured.remarks)
        assert set(fault.failed_gates) <= set(failed), where
        if measured.validation is not None:
            assert str(measured.validation.runtime.outcome) in fault.outcomes, where
        if fault is GOOD:
            assert failed in ([], ()), where
            assert measured.is_correct is True, where
        totals[fault.name] = task_total(task, measured.components)
    good = totals.pop("good")
    assert max(totals.values()) < good, totals


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [2026, 7])
def test_without_a_run_no_faulty_program_is_above_a_good_one(reader, seed):
    task = PhaserTask(GameOptions(skip_runtime=True), reader)
    seeds = make_prompt_seeds(60, seed)
    problems = {row["id"]: task.problem_from_row(row, "row") for row in seeds}
    totals: dict[str, dict[str, list[float]]] = {}
    for row in make_rollouts(seeds, step=1, num_prompts=12, group_size=8, seed=seed, created_at=""):
        problem = problems[row["prompt_id"]]
        measured = task.evaluate(task.parse(Completion(text=row["text"]), problem), problem)
        total = measured.components["code"]  # a plan is paid whatever the program does
        totals.setdefault(row["prompt_id"], {}).setdefault(row["meta"]["quality"], []).append(total)
    assert len(totals) == 12
    for prompt, of_prompt in totals.items():
        least = min(of_prompt.pop("good", [1.0]))
        for crash in ("runtime_crash", "update_crash"):
            assert max(of_prompt.pop(crash, [0.0])) <= least, prompt
        assert max([0.0, *(max(values) for values in of_prompt.values())]) < least, (prompt, of_prompt)


def test_must_use_miss_uses_none_of_the_symbols_that_a_prompt_may_demand(reader):
    """Whatever one feature a prompt asks for; the programs differ in the feature that they show instead."""
    [miss] = [fault for fault in FAULTS if fault.name == "must_use_miss"]
    symbols = [feature.symbol for feature in all_features()]
    shown = {}
    for feature in all_features():
        asked = Program((Part(feature, draw_values(random.Random(feature.name))),))
        changed = miss.change(asked)
        assert [part.feature.name for part in changed.parts] != [feature.name]
        shown.setdefault(changed.source(), []).append(feature.symbol)
    assert sorted(symbol for missed in shown.values() for symbol in missed) == sorted(symbols)
    for source, demanded in shown.items():
        for start in range(0, len(demanded), 60):
            facts = GameFacts(must_use_apis=tuple(demanded[start : start + 60]))
            options = GameOptions(skip_eslint=True, skip_runtime=True)
            assert reader.validate(options.request(source, facts)).api_usage.must_use_hits == ()


def test_a_prompt_without_symbols_gets_no_must_use_miss():
    prompt = {"id": "a", "task": "Show something.", "must_use_apis": ["Phaser.Scene"], "eval_hints": []}
    rows = make_rollouts([prompt], step=1, num_prompts=1, group_size=300, seed=1, created_at="")
    kinds = {row["meta"]["quality"] for row in rows}
    assert kinds == {"good", *(fault.name for fault in FAULTS)} - {"must_use_miss"}
