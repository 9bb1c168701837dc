import json

import pytest
from starlette.testclient import TestClient

from engine.records import Fusion
from engine.statistics.paired import paired_difference
from engine.storage.rollout_store import read
from grpo_training.view.data.file_index import NotFoundError
from grpo_training.view.data.runs import Store
from grpo_training.view.pages import compare, runs
from grpo_training.view.pages.overview import figures_of
from grpo_training.view.web.page import Request
from grpo_training.view.web.server import application
from tests.support.viewer_runs import group, write


@pytest.fixture
def store(tmp_path):
    first = [group("p1", [0.2, 0.8]), group("p2", [0.2, 0.4]), group("p3", [0.9, 0.9])]
    second = [group("p1", [0.8, 0.8]), group("p2", [0.2, 0.8]), group("p4", [0.1, 0.1])]
    write(tmp_path / "a/generator_1_rollouts.jsonl", first, settings={"tau": 0.05, "rollouts": 2, "dataset": "x"})
    write(tmp_path / "b/generator_1_rollouts.jsonl", second, settings={"tau": 0.1, "rollouts": 2, "seed": 3})
    return Store([tmp_path])


def build(store, names):
    return compare.build(store, Request({"runs": names}))


def test_differences_are_paired_over_the_common_problems(store):
    found = build(store, "a-generator_1~b-generator_1")
    assert (found["problems"], found["common"]) == ([3, 3], [3, 2])
    rows = {row.name: row for row in found["rows"]}
    accuracy = rows["figures.accuracy"].cells
    assert accuracy[0].mean.value == pytest.approx((0.5 + 0 + 1) / 3)
    assert accuracy[0].difference is None
    assert accuracy[1].difference == paired_difference({"p1": [1.0], "p2": [0.5]}, {"p1": [0.5], "p2": [0.0]})
    assert rows["r_graph"].cells[1].difference.value == 0


def test_the_interval_of_a_share_is_that_of_the_overview(store):
    [accuracy] = [row for row in build(store, "a-generator_1~b-generator_1")["rows"] if row.name == "figures.accuracy"]
    for cell, run in zip(accuracy.cells, store.runs, strict=True):
        assert cell.mean == figures_of(store.index(run)).accuracy


def test_runs_without_stored_settings_are_not_said_to_have_the_same(tmp_path):
    for name in "ab":
        write(tmp_path / f"{name}/generator_1_rollouts.jsonl", [group("p1", [0.2, 0.8])])
    site = TestClient(application(Store([tmp_path])), base_url="http://localhost")
    assert "No settings are stored" in site.get("/compare/a-generator_1~b-generator_1.html").text


def test_settings_that_differ_are_listed_and_absent_ones_marked(store):
    assert dict(build(store, "a-generator_1~b-generator_1")["settings"]) == {
        "tau": ["0.05", "0.1"],
        "dataset": ["x", "–"],
        "seed": ["–", "3"],
    }


@pytest.mark.parametrize("names", ["a-generator_1", "a-generator_1~a-generator_1", "a-generator_1~nothing", "~"])
def test_a_comparison_needs_two_runs_that_exist(store, names):
    with pytest.raises(NotFoundError):
        build(store, names)


def test_the_list_has_each_run_with_its_figures(store):
    found = runs.build(store, Request())
    rows = [row for _, rows in found["folders"] for row in rows]
    assert [(row["run"].id, row["state"], row["dataset"]) for row in rows] == [
        ("a-generator_1", "finished", "x"),
        ("b-generator_1", "finished", ""),
    ]
    assert rows[0]["figures"].accuracy.value == pytest.approx(0.5)


def test_an_export_has_the_pairs_of_runs(store):
    assert runs.build(store, Request(live=False))["comparisons"] == ["a-generator_1~b-generator_1"]


def test_the_list_has_the_figures_of_a_critic(pocket):
    rows = [row for _, rows in runs.build(Store([pocket]), Request())["folders"] for row in rows]
    [critic] = [row["fusions"] for row in rows if row["run"].kind == "critic"]
    fusions = read(pocket / "cache/critic_results.jsonl", Fusion).records
    right = [one.is_correct for one in fusions]
    assert critic.count == len(fusions) == 18
    assert (critic.right, critic.checked) == (sum(right), len(right))
    assert critic.reward == pytest.approx(sum(one.rewards.r_total for one in fusions) / len(fusions))


def test_curves_of_runs_lie_over_each_other_by_number_of_group(tmp_path):
    long = [group(f"p{number}", [0.9, 0.9] if number < 5 else [0.1, 0.1]) for number in range(10)]
    write(tmp_path / "long/cache/generator_1_rollouts.jsonl", long, settings={})
    write(tmp_path / "short/cache/generator_1_rollouts.jsonl", [group(f"p{number}", [0.9, 0.1]) for number in range(6)])
    found = build(Store([tmp_path]), "cache-generator_1~cache-generator_1-2")
    accuracy = found["charts"]["chart.accuracy"]
    assert found["window"] == 5
    assert accuracy["x"] == list(range(1, 11))
    series = {one["label"]: one["values"] for one in accuracy["series"]}
    assert series["long generator_1"] == [1.0] * 5 + [0.8, 0.6, 0.4, 0.2, 0.0]  # the mean of the last five groups
    assert series["short generator_1"] == [0.5] * 6 + [None] * 4  # it has ended
    assert set(found["charts"]) == {"chart." + name for name in ("accuracy", "reward", "sigma", "triggered", "tokens")}


def test_a_comparison_without_groups_has_no_curves(tmp_path):
    for name in "ab":
        write(tmp_path / name / "generator_1_rollouts.jsonl", [])
    assert build(Store([tmp_path]), "a-generator_1~b-generator_1")["charts"] == {}


def training(folder, rows):
    folder.mkdir()
    (folder / "config.json").touch()
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_curves_of_trainings_lie_over_each_other_by_step(tmp_path):
    training(
        tmp_path / "one",
        [
            {"step": 1, "stage": "late", "kl": 0.1, "reward": 0.4, "validation/reward_start": 0.25},
            {"step": 2, "stage": "late", "kl": 0.3, "reward": 0.4, "validation/reward": 0.5},
        ],
    )
    training(tmp_path / "two", [{"step": 2, "stage": "late", "kl": 0.2}, {"step": 3, "stage": "late", "kl": 0.4}])
    store = Store([tmp_path])
    found = build(store, "~".join(run.id for run in sorted(store.runs, key=lambda run: run.name)))
    assert list(found["charts"]) == ["curve.held_out", "curve.kl"]
    kl = found["charts"]["curve.kl"]
    assert kl["x"] == [1, 2, 3]
    assert [(one["label"], one["values"]) for one in kl["series"]] == [
        ("one", [0.1, 0.3, None]),
        ("two", [None, 0.2, 0.4]),
    ]
    assert [one["label"] for one in found["charts"]["curve.held_out"]["series"]] == ["one"]
    ends = {row.text or row.name: row.values for row in found["ends"]}
    assert ends["compare.steps"] == ["2", "3"]
    assert ends["training.initial"] == ["0.25", "–"]
    assert ends["training.change"] == ["+0.25", "–"]
    assert ends["kl"] == ["0.3", "0.4"]


@pytest.mark.parametrize(("stage", "compared"), [("late", ["entropy"]), (None, ["reward", "entropy"])])
def test_rewards_are_compared_between_online_trainings_only(tmp_path, stage, compared):
    training(tmp_path / "first", [{"step": 1, "stage": stage, "reward": 0.4}])
    training(tmp_path / "online", [{"step": 1, "reward": 0.4, "entropy": 1.0}])
    store = Store([tmp_path])
    found = build(store, "~".join(run.id for run in store.runs))
    assert list(found["charts"]) == [f"curve.{name}" for name in compared]
    assert ("reward" in [row.name for row in found["ends"]]) == ("reward" in compared)
