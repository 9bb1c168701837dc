"""Prompt seeds, sets, and mock rollouts as files: shares, symbols, overlap, determinism."""

import re

import pytest

from engine.errors import InputError
from engine.tasks.phaser.mock.faults import FAULTS, GOOD
from engine.tasks.phaser.mock.rollouts import make_rollouts
from engine.tasks.phaser.problems import facts_of, problem_of, read_prompt
from engine.tasks.phaser.reply import read_reply
from engine.tasks.phaser.seeds.features import all_features
from engine.tasks.phaser.seeds.programs import feature_of, program_for
from engine.tasks.phaser.seeds.prompt_seeds import make_prompt_seeds, seeds_report
from engine.tasks.phaser.seeds.sets import build_sets, overlap, sets_summary

KEYS = [
    "id",
    "difficulty",
    "modules",
    "task",
    "constraints",
    "must_use_apis",
    "eval_hints",
    "tags",
    "notes",
]


@pytest.fixture(scope="module", params=["en", "zh"])
def seeds(request):
    return make_prompt_seeds(2000, 42, request.param)


def test_two_thousand_different_prompts(seeds):
    report = seeds_report(seeds)
    assert report["total"] == 2000
    assert report["by_difficulty"] == {"easy": 800, "medium": 800, "hard": 400}
    assert len({row["task"] for row in seeds}) == 2000
    assert [row["id"] for row in seeds][::999] == ["seed_000001", "seed_001000", "seed_001999"]
    assert len(report["by_symbol"]) >= 60
    assert min(report["by_symbol"].values()) >= 20  # no symbol is rare
    for row in seeds:
        assert list(row) == KEYS
        assert "Scene" in row["modules"]
        assert 1 <= len(row["must_use_apis"]) <= 2
        assert row["eval_hints"]
        assert not re.search(r"[{}$]", row["task"])
    is_chinese = [bool(re.search("[\u4e00-\u9fff]", row["task"])) for row in seeds]
    assert all(is_chinese) or not any(is_chinese)


def test_the_same_seed_gives_the_same_prompts():
    assert make_prompt_seeds(50, 1) == make_prompt_seeds(50, 1)
    assert make_prompt_seeds(50, 1) != make_prompt_seeds(50, 2)


def test_more_prompts_than_the_features_give(monkeypatch):
    deck = next(feature for feature in all_features() if feature.name == "shuffle")  # 7 counts, 4 openings
    monkeypatch.setattr("engine.tasks.phaser.seeds.prompt_seeds.all_features", lambda: (deck,))
    with pytest.raises(InputError, match="only 28 different easy prompts, not 40"):
        make_prompt_seeds(100, 1)


def test_every_feature_has_a_symbol_of_its_own_and_texts_with_its_values():
    features = all_features()
    assert len({feature.name for feature in features}) == len(features)
    assert len({feature.symbol for feature in features}) == len(features)
    for feature in features:
        in_en, in_zh = (set(re.findall(r"{(\w+)}", text)) for text in (feature.en, feature.zh))
        assert in_en == in_zh, feature.name
        in_code = set(re.findall(r"\$(\w+)", feature.preload + feature.create + feature.update))
        in_code -= {name for name in in_code if name.startswith("i")} | {"x", "y"}
        in_code = {"direction" if name in ("dx", "dy") else name for name in in_code}
        assert in_code == {"radius" if name == "diameter" else name for name in in_en}, feature.name


@pytest.mark.parametrize(("train_count", "eval_count"), [(50, 20), (1500, 300)])
def test_sets_do_not_overlap(seeds, train_count, eval_count):
    sets = build_sets(
        seeds, train_count=train_count, eval_count=eval_count, ood_ratio=0.2, seed=42, created_at="2026-01-01"
    )
    assert len(sets.train) == train_count
    assert len(sets.evaluation) == eval_count
    assert overlap(sets.train, sets.evaluation) == {"sources": 0, "texts": 0, "modules_of_combinations": 0}
    shares = {name: count / train_count for name, count in sets_summary(sets.train)["by_difficulty"].items()}
    # three quarters of all seeds are training prompts: what is held out of the hard ones is filled by others
    assert shares == pytest.approx({"easy": 0.4, "medium": 0.4, "hard": 0.2}, abs=0 if train_count == 50 else 0.01)
    assert sets_summary(sets.evaluation)["by_ood"] == {"iid": 0.8 * eval_count, "ood": 0.2 * eval_count}
    originals = {row["id"]: row for row in seeds}
    for row in sets.train:
        assert {key: row[key] for key in KEYS} == originals[row["id"]]
        assert row["meta"] == {"source": "prompt_seed"}
    for row in sets.evaluation:
        if row["ood"]:
            first, second = (originals[source] for source in row["source_ids"])
            assert set(row["modules"]) == {*first["modules"], *second["modules"]}
            assert set(row["modules"]) not in (set(first["modules"]), set(second["modules"]))
            assert first["task"] in row["task"]
            assert second["task"] in row["task"]
            assert {"ood", "combo"} <= set(row["tags"])
            assert row["source_id"] is None
        else:
            assert row["source_id"] in originals
            assert "source_ids" not in row


def test_the_overlap_is_counted():
    seeds = make_prompt_seeds(200, 3)
    sets = build_sets(seeds, train_count=20, eval_count=10, ood_ratio=0.2, seed=1, created_at="")
    source = next(row["source_id"] for row in sets.evaluation if row["source_id"])
    combined = next(row for row in sets.evaluation if row["ood"])
    leaked = [
        next(row for row in seeds if row["id"] == source),
        {**seeds[0], "id": "x", "modules": combined["modules"]},
    ]
    assert overlap(leaked, sets.evaluation) == {"sources": 1, "texts": 1, "modules_of_combinations": 1}


def test_too_few_seeds():
    seeds = make_prompt_seeds(30, 3)
    with pytest.raises(InputError, match="30 seeds are too few"):
        build_sets(seeds, train_count=30, eval_count=10, ood_ratio=0.2, seed=1, created_at="")
    alike = [{**row, "modules": ["Scene"]} for row in seeds]
    with pytest.raises(InputError, match="combinations of different modules"):
        build_sets(alike, train_count=10, eval_count=10, ood_ratio=0.2, seed=1, created_at="")


def test_mock_rollouts_have_one_fault_each_and_groups_of_the_size():
    seeds = make_prompt_seeds(40, 42)
    rows = list(make_rollouts(seeds, step=1, num_prompts=30, group_size=8, seed=2026, created_at="now"))
    assert rows == list(make_rollouts(seeds, step=1, num_prompts=30, group_size=8, seed=2026, created_at="now"))
    assert len(rows) == 240
    assert sum(fault.weight for fault in (*FAULTS, GOOD)) == pytest.approx(1)
    assert {row["meta"]["quality"] for row in rows} == {fault.name for fault in (*FAULTS, GOOD)}
    groups = {row["prompt_id"] for row in rows}
    assert len(groups) == 30
    good = {row["prompt_id"] for row in rows if row["meta"]["quality"] == "good"}
    assert len(good) >= 0.7 * 30
    for row in rows:
        reply = read_reply(row["text"])
        prompt = next(seed for seed in seeds if seed["id"] == row["prompt_id"])
        assert list(reply.plan.apis) == prompt["must_use_apis"]
        assert bool(reply.code) == (row["meta"]["quality"] != "no_code")
        assert ("new Phaser.Game(" in reply.code) == (row["meta"]["quality"] not in ("no_code", "missing_game"))
        assert row["group_id"] == row["meta"]["variant"]


def test_programs_show_the_symbols_of_other_prompts():
    import random

    symbols = [
        *("Phaser.GameObjects.Graphics", "Phaser.Physics.Arcade.Group", "Phaser.GameObjects.Text"),
        *("Phaser.Time.TimerEvent", "Phaser.Tweens.Tween", "Phaser.Physics.Arcade.Sprite", "Phaser.Math.Angle"),
        *("Phaser.Input.Keyboard.KeyCodes", "Phaser.Cameras.Scene2D.Camera", "Phaser.Input.Events.GAMEOBJECT_DRAG"),
        *("Phaser.Input.Events.POINTER_DOWN", "Phaser.Math.Distance", "Phaser.Input.Pointer", "Phaser.Math.RND"),
        *("Phaser.GameObjects.Particles.ParticleEmitter", "Phaser.Tilemaps.Tilemap", "Phaser.GameObjects.Group"),
        "Phaser.Input.Events.POINTER_MOVE",
    ]
    assert [symbol for symbol in symbols if feature_of(symbol) is None] == []
    prompt = read_prompt({"id": "a", "task": "做", "must_use_apis": [*symbols, "Phaser.Scene", "Phaser.No"]}, "row 1")
    program = program_for(prompt, random.Random(0))
    assert program.scene == "MainScene"
    assert {part.feature.name for part in program.parts} == {feature_of(symbol).name for symbol in symbols}


def test_rows_of_prompts():
    row = {"id": "s", "task": "做一个球", "difficulty": "extreme", "must_use_apis": None, "modules": ["Scene"], "x": 1}
    problem = problem_of(read_prompt(row, "f, line 1"), "phaser")
    assert problem.text == "做一个球"
    assert facts_of(problem.answer).difficulty == "medium"
    assert problem.meta["modules"] == ["Scene"]
    for bad in ({"id": "s"}, {"task": ""}, {"task": 3}, {"task": "x", "must_use_apis": "Phaser.Game"}):
        with pytest.raises(InputError, match="f, line 2"):
            read_prompt(bad, "f, line 2")
