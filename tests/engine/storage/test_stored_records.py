"""Records of a file by key: which count, what stays in memory, and files that grow or are replaced."""

import json
import tracemalloc

import pytest

from engine.errors import InputError
from engine.records import Fusion, Outcome, Rollout, RolloutGroup
from engine.storage.rollout_store import RolloutStore, read
from engine.storage.stored_records import StoredFusions, StoredGroups, numbered


def group(problem_id="p1", answer="1", outcome=Outcome.OK):
    rollout = Rollout(rollout_id=1, answer=answer, r_total=0.5, outcome=outcome)
    return RolloutGroup(problem_id=problem_id, problem_text="?", ground_truth="1", rollouts=[rollout], timestamp="t")


def test_stored_groups_are_the_last_complete_ones_and_are_read_when_asked_for(tmp_path, recorded):
    path = tmp_path / "g.jsonl"
    lines = recorded["generator_1_rollouts"].read_bytes().splitlines()
    path.write_bytes(b"\n\n".join([*lines[:3], b"{broken", *lines[3:]]) + b"\n\n" + lines[0][:50])
    groups = StoredGroups(path)
    contents = read(path, RolloutGroup)
    assert groups.broken == contents.broken
    assert len(groups.broken) == 2
    assert dict(groups) == {(record.problem_id, record.epoch): record for record in contents.records if record.complete}
    assert len(StoredGroups(tmp_path / "none.jsonl")) == 0


def test_a_group_that_was_completed_later_keeps_its_place(tmp_path):
    path = tmp_path / "g.jsonl"
    store = RolloutStore(path)
    failed = group("first", outcome=Outcome.INFRA_FAULT)
    for record in (failed, group("second"), group("first"), failed.model_copy(update={"problem_id": "third"})):
        store.append(record)
    groups = StoredGroups(path)
    assert [name for name, _ in groups] == ["first", "second"]
    assert groups["first", 0] == group("first").model_copy(update={"format": 1})
    assert ("third", 0) not in groups


def test_groups_are_in_problem_order_in_whatever_order_they_were_completed(tmp_path):
    path = tmp_path / "g.jsonl"
    store = RolloutStore(path)
    for name, step in (("old 0", None), ("old 1", None), ("p4", 4), ("p2", 2), ("p3", 3)):
        store.append(group(name).model_copy(update={"step": step}))
    names = ["old 0", "old 1", "p2", "p3", "p4"]
    stored = StoredGroups(path)
    assert [name for name, _ in stored] == names
    assert [stored.step(key) for key in stored] == [None, None, 2, 3, 4]


def test_each_group_has_a_number_of_its_own_which_is_its_step_where_it_can_be():
    steps = (None, None, 1, 2, 4, 4, 7)
    assert [number for number, _ in numbered(steps, lambda step: step)] == [0, 1, 2, 3, 4, 5, 7]


def test_thousands_of_stored_groups_take_little_memory(tmp_path, recorded):
    """Only their keys and offsets, which are less than half of the file."""
    path = tmp_path / "g.jsonl"
    line = json.loads(recorded["generator_1_rollouts"].read_text().splitlines()[0])
    path.write_text("".join(json.dumps({**line, "problem_id": f"p{number}"}) + "\n" for number in range(2000)))
    tracemalloc.start()
    groups = StoredGroups(path)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(groups) == 2000
    assert groups["p1999", 0].problem_text == line["problem_text"]
    assert taken < path.stat().st_size / 2


def test_stored_fusions_are_the_last_ones_with_a_reward(tmp_path, recorded):
    path = tmp_path / "f.jsonl"
    path.write_bytes(recorded["critic_results"].read_bytes())
    store = RolloutStore(path)
    first = read(path, Fusion).records[0]
    store.append(first.model_copy(update={"final_answer": "another"}))
    store.append(first.model_copy(update={"outcome": Outcome.INFRA_FAULT}))
    store.append(first.model_copy(update={"problem_id": "new", "outcome": Outcome.INFRA_FAULT}))
    fusions = StoredFusions(path)
    assert dict(fusions) == {
        (record.problem_id, record.epoch, record.generator_id): record
        for record in read(path, Fusion).records
        if record.outcome.carries_reward
    }
    assert fusions[first.problem_id, first.epoch, first.generator_id].final_answer == "another"


def test_a_file_that_is_replaced_is_not_taken_for_the_old_one(tmp_path):
    path, other = tmp_path / "g.jsonl", tmp_path / "other.jsonl"
    RolloutStore(path).append(group("a"))
    groups = StoredGroups(path)
    store = RolloutStore(other)
    for record in (group("b"), group("a"), group("a", answer="2")):
        store.append(record)
    other.replace(path)
    with pytest.raises(InputError, match="was replaced while it was being read"):
        groups["a", 0]
    groups = StoredGroups(path)
    assert [groups[name, 0].rollouts[0].answer for name in "ab"] == ["2", "1"]
    path.unlink()
    with pytest.raises(InputError, match="was replaced"):
        groups["a", 0]


def test_with_incomplete_ones_the_records_are_the_latest_of_each_problem(tmp_path, recorded):
    path = tmp_path / "g.jsonl"
    store = RolloutStore(path)
    failed = group("b", outcome=Outcome.INFRA_FAULT)
    for record in (group("a"), failed, group("a", "2"), group("a", outcome=Outcome.INFRA_FAULT), failed):
        store.append(record)
    groups = StoredGroups(path, with_incomplete=True)
    assert [(record.problem_id, record.rollouts[0].answer, record.complete) for record in groups.in_order()] == [
        ("a", "2", True),
        ("b", "1", False),
    ]


def test_a_record_with_a_fault_that_its_summary_does_not_show_counts_as_not_there(tmp_path):
    path = tmp_path / "g.jsonl"
    RolloutStore(path).append(group("a"))
    path.write_text(path.read_text().replace('"reward_detail":{}', '"reward_detail":3'))
    groups = StoredGroups(path)
    assert groups.get(("a", 0)) is None
    assert ("a", 0) not in groups
    assert [line.number for line in groups.broken] == [1]


def test_an_absurd_step_breaks_nothing(tmp_path, recorded):
    path = tmp_path / "f.jsonl"
    first = json.loads(recorded["critic_results"].read_text().splitlines()[0])
    lines = [{**first, "step": step, "problem_id": f"p{step}"} for step in (10**30, 1, -(10**30))]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [key[0] for key in StoredFusions(path)] == [f"p{step}" for step in (-(10**30), 1, 10**30)]
