"""Which runs, libraries and trainings are found, and what they are called in addresses."""

import json

import pytest

from engine.storage.rollout_store import RolloutStore
from grpo_training.view.data.record_index import NotFoundError
from grpo_training.view.data.runs import Store
from tests.support.viewer_runs import group, write


def test_runs_libraries_and_trainings_are_found_by_their_files(tmp_path):
    write(tmp_path / "x/cache/generator_1_rollouts.jsonl", [], settings={})
    write(tmp_path / "x/cache/generator_1_rollouts.jsonl.old1", [])
    (tmp_path / "x/cache/critic_results.jsonl").touch()
    (tmp_path / "x/generator_1_experiences.json").write_text("[]", encoding="utf-8")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/metrics.jsonl").touch()
    (tmp_path / "out/config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/metrics.jsonl").touch()  # of another program: no config.json
    store = Store([tmp_path])
    assert {(run.id, run.kind) for run in store.runs} == {
        ("out", "training"),
        ("cache-critic", "critic"),
        ("cache-generator_1", "generator"),
        ("cache-generator_1-old1", "generator"),
    }
    assert [(library.id, library.name) for library in store.libraries] == [("x-generator_1-library", "generator_1")]


def test_fusions_that_were_set_aside_have_the_manifest_of_their_time(tmp_path):
    for old, tau in (("", 0.2), (".old1", 0.4)):
        (tmp_path / f"critic_results.jsonl{old}").touch()
        content = {"run": "abc", "finished": True, "configuration": {"settings": {"tau": tau}}}
        (tmp_path / f"critic_run.json{old}").write_text(json.dumps(content), encoding="utf-8")
    runs = Store([tmp_path]).runs
    assert [(run.name, run.configuration()) for run in runs] == [
        ("critic", {"tau": 0.2}),
        ("critic.old1", {"tau": 0.4}),
    ]


def test_equal_names_get_numbers_and_a_folder_in_two_arguments_is_searched_once(tmp_path):
    for name in ("a/cache", "b/cache"):
        write(tmp_path / name / "generator_1_rollouts.jsonl", [])
    store = Store([tmp_path, tmp_path / "a", tmp_path / "b/cache/generator_1_rollouts.jsonl"])
    assert [run.id for run in store.runs] == ["cache-generator_1", "cache-generator_1-2"]


def test_a_name_that_could_be_a_path_or_markup_is_no_part_of_an_address(tmp_path):
    write(tmp_path / 'Ünsafe <b>& "x" {run} ..%2f/generator_1_rollouts.jsonl', [])
    [run] = Store([tmp_path]).runs
    assert run.id == "nsafe-b-x-run-2f-generator_1"


def test_the_address_of_a_long_name_can_be_the_name_of_a_folder(tmp_path):
    for folder in ("a", "b"):
        write(tmp_path / folder / ("x" * 250) / "generator_1_rollouts.jsonl", [])
    ids = [run.id for run in Store([tmp_path]).runs]
    assert len(set(ids)) == 2
    assert all(len(run_id) < 200 for run_id in ids)


def test_the_state_of_a_run(tmp_path):
    path = write(tmp_path / "cache/generator_1_rollouts.jsonl", [group("p1", [0.1, 0.9])])
    store = Store([tmp_path])
    [run] = store.runs
    assert run.state() == "unknown"
    write(path, [], settings={"tau": 0.3}, finished=False)
    assert run.state() == "stopped"
    assert run.configuration() == {"tau": 0.3, "model": "tiny"}
    with RolloutStore(path).hold():
        assert run.state() == "running"
    write(path, [], settings={}, finished=True)
    assert run.state() == "finished"
    run.manifest.write_text(json.dumps({"run": 1}), encoding="utf-8")
    assert (run.state(), run.configuration()) == ("unknown", {})


def test_tau_of_the_settings_decides_which_groups_teach(tmp_path):
    groups = [group("p1", [0.4, 0.6]).model_copy(update={"stats": None})]  # sigma 0.1
    write(tmp_path / "a/generator_1_rollouts.jsonl", groups, settings={"tau": 0.05})
    write(tmp_path / "b/generator_1_rollouts.jsonl", groups, settings={"tau": 0.2})
    store = Store([tmp_path])
    triggered = []
    for run in store.runs:
        store.index(run).update()
        triggered += [summary.triggered for summary in store.index(run).all()]
    assert triggered == [True, False]


@pytest.mark.parametrize("name", ["", "nothing", "../cache-generator_1", "CACHE-GENERATOR_1"])
def test_an_unknown_run_is_not_found(tmp_path, name):
    write(tmp_path / "cache/generator_1_rollouts.jsonl", [])
    with pytest.raises(NotFoundError):
        Store([tmp_path]).run(name, "generator")


def test_a_run_that_appears_later_does_not_take_the_groups_of_another(tmp_path, monkeypatch):
    write(tmp_path / "b/cache/generator_1_rollouts.jsonl", [group("old", [0.1, 0.9])])
    store = Store([tmp_path])
    [run] = store.runs
    store.index(run).update()
    write(tmp_path / "a/cache/generator_1_rollouts.jsonl", [group("new", [0.1, 0.9])])  # it gets the id of the first
    monkeypatch.setattr(store, "_next_scan", 0.0)
    problems = {}
    for run in store.runs:
        store.index(run).update()
        problems[run.path.parts[-3]] = [summary.problem_id for summary in store.index(run).all()]
    assert problems == {"a": ["new"], "b": ["old"]}


def test_the_stamp_changes_when_a_run_is_taken_up_again(tmp_path):
    path = write(tmp_path / "cache/generator_1_rollouts.jsonl", [group("p", [0.1, 0.9])])
    store = Store([tmp_path])
    before = store.stamp()
    assert store.stamp() == before
    with RolloutStore(path).hold():
        assert store.stamp() != before
