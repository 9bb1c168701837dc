"""Libraries are read again only after a change of their files, and then as far as they changed."""

import json
import os

import pytest

from engine.errors import InputError
from engine.experience.events import BeginEvent, GateEvent
from engine.experience.library import ExperienceLibrary
from engine.records import Operation, Problem
from grpo_training.view.data import libraries
from grpo_training.view.data.runs import Store
from tests.support.library import commit, step_of

GATE = {"verdict": "adopted", "mean": 0.1, "low": 0.05, "high": 0.2, "problems": 9, "of": 9, "own": 0, "samples": 2,
        "alpha": 0.05, "looks": 1, "dataset": "d", "model": "m", "at": "2026-01-02T00:00:00+00:00"}  # fmt: skip


def learn(library, number):
    problem = Problem(id=f"p{number}", text="How many?", answer="42", task="math")
    step = step_of(run="r", step=number, problem=problem, epoch=0, used=[], rollouts=2, correct=1)
    commit(library, step, [Operation(op="add", content=f"Check case {number} of the {'xyzuvw'[number]} series.")])


@pytest.fixture
def library(tmp_path):
    library = ExperienceLibrary(tmp_path / "a/experiences/generator_1_experiences.json")
    library.begin_run(BeginEvent(at="", run="r"))
    learn(library, 0)
    return library


@pytest.fixture
def opened(monkeypatch):
    """The paths of the libraries that were opened from their first line on, in order."""
    paths = []

    def recorded(path, **options):
        paths.append(path)
        return ExperienceLibrary(path, **options)

    monkeypatch.setattr(libraries, "ExperienceLibrary", recorded)
    return paths


def test_a_library_that_did_not_change_is_not_read_again(tmp_path, library, opened):
    store = Store([tmp_path])
    for _ in range(3):
        [summary] = [viewed.summary() for viewed in store.libraries]
    assert (summary["experiences"], summary["version"], summary["gates"]) == (1, library.state.version, [])
    assert len(opened) == 1


def test_a_library_that_has_grown_is_read_again(tmp_path, library, opened):
    store = Store([tmp_path])
    store.libraries[0].summary()
    before = store.stamp()
    learn(library, 1)
    library.record_gate(GateEvent(version=library.state.version, **GATE))
    [summary] = [viewed.summary() for viewed in store.libraries]
    assert (summary["experiences"], summary["version"]) == (2, library.state.version)
    assert [gate.verdict for gate in summary["gates"]] == ["adopted"]
    assert len(opened) == 2
    assert store.stamp() != before  # so that an open page is sent again


def test_texts_are_read_again_only_after_a_change(tmp_path, library, opened):
    """As the pages of the groups of a run do, one after the other."""
    [viewed] = Store([tmp_path]).libraries
    for _ in range(3):
        assert viewed.texts() == {"G1-001": "Check case 0 of the x series."}
    assert len(opened) == 1
    learn(library, 1)
    for _ in range(3):
        assert list(viewed.texts()) == ["G1-001", "G1-002"]
    assert len(opened) == 2
    content = viewed.path.with_suffix(".ops.jsonl").read_bytes()
    viewed.path.with_suffix(".ops.jsonl").write_bytes(b"{}\n")
    assert viewed.texts() == {}  # damaged
    viewed.path.with_suffix(".ops.jsonl").write_bytes(content)
    assert list(viewed.texts()) == ["G1-001", "G1-002"]


def test_a_file_edited_by_hand_is_read_as_it_is(tmp_path, library, opened):
    [viewed] = Store([tmp_path]).libraries
    viewed.open()
    edited = json.loads(viewed.path.read_text(encoding="utf-8"))
    edited[0]["content"] = "Another text."
    viewed.path.write_text(json.dumps(edited), encoding="utf-8")
    assert any("was edited: 1 modified" in notice for notice in viewed.open().notices)
    learn(library, 1)  # imports the edit first
    again = viewed.open()
    assert [text.content for text in again.state.live][:1] == ["Another text."]
    assert again.notices == []


def test_a_log_in_the_place_of_another_is_read_from_its_first_line(tmp_path, library, opened):
    [viewed] = Store([tmp_path]).libraries
    viewed.open()
    log = viewed.path.with_suffix(".ops.jsonl")
    other = ExperienceLibrary(tmp_path / "b/generator_1_experiences.json")
    for number in range(3):
        learn(other, number)
    os.replace(other.log_path, log)
    os.replace(other.json_path, viewed.path)
    assert viewed.summary()["experiences"] == 3
    assert len(opened) == 2


def test_a_damaged_library_says_why_and_is_not_read_again(tmp_path, library, opened):
    library.log_path.write_bytes(library.log_path.read_bytes() + b"no event\n")
    [viewed] = Store([tmp_path]).libraries
    for _ in range(2):
        assert "line 3" in viewed.summary()["error"]
    assert len(opened) == 1
    with pytest.raises(InputError):
        viewed.open()
