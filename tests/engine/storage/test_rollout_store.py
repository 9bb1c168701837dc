import json

import pytest

from engine.errors import LockHeldError, MissingInputError
from engine.records import Completion, Fusion, Outcome, Rewards, Rollout, RolloutGroup
from engine.storage.lines import LineReader
from engine.storage.rollout_store import RolloutStore, read, read_each
from engine.storage.stored_records import StoredFusions, StoredGroups


def group(problem_id="p1", epoch=0, outcome=Outcome.OK, answer="1", **more):
    rollout = Rollout(rollout_id=1, answer=answer, r_total=0.5, outcome=outcome, **more)
    return RolloutGroup(
        problem_id=problem_id, problem_text="?", ground_truth="1", rollouts=[rollout], timestamp="t", epoch=epoch
    )


def fusion(generator_id, outcome=Outcome.OK, answer="1"):
    return Fusion(
        problem_id="p1",
        problem_text="?",
        ground_truth="1",
        generator_id=generator_id,
        final_answer=answer,
        outcome=outcome,
    )


def test_a_record_round_trips_and_gets_the_format_version(tmp_path):
    store = RolloutStore(tmp_path / "cache" / "generator_1_rollouts.jsonl")
    first = group(scaffold={"knowns": {"x": 1}}, completion=Completion(text="a\nb\u2028c\x85", token_ids=[1, 2]))
    with store.hold():
        store.append(first)
        store.append(group("p2"))
    contents = read(store.path, RolloutGroup)
    assert contents.records == [record.model_copy(update={"format": 1}) for record in (first, group("p2"))]
    assert contents.broken == []
    assert store.path.read_bytes().count(b"\n") == 2


def test_every_line_has_the_keys_of_the_format(tmp_path):
    store = RolloutStore(tmp_path / "a.jsonl")
    store.append(group())
    line = json.loads(store.path.read_text())
    assert {"problem_id", "problem_text", "ground_truth", "rollouts", "timestamp"} <= line.keys()
    keys = {"rollout_id", "scaffold", "answer", "is_correct", "r_ans", "r_logic", "r_graph", "r_total"}
    assert keys <= line["rollouts"][0].keys()


def test_a_second_writer_is_refused(tmp_path):
    first, second = (RolloutStore(tmp_path / "a.jsonl") for _ in range(2))
    with first.hold(), pytest.raises(LockHeldError, match="is locked by another process"):
        second.append(group())


def test_lone_surrogates_are_stored_as_question_marks(tmp_path):
    store = RolloutStore(tmp_path / "a.jsonl")
    store.append(group(answer="a\ud800b", scaffold={"x": float("nan")}))
    (back,) = read(store.path, RolloutGroup).records
    assert back.rollouts[0].answer == "a?b"
    assert back.rollouts[0].scaffold == {"x": None}


def test_recorded_files_of_another_program_are_read_completely(recorded):
    for name, model in (
        ("generator_1_rollouts", RolloutGroup),
        ("generator_2_rollouts", RolloutGroup),
        ("critic_results", Fusion),
    ):
        raw = [json.loads(line) for line in recorded[name].read_text(encoding="utf-8").splitlines()]
        contents = read(recorded[name], model)
        assert contents.broken == []
        assert len(contents.records) == len(raw)
        for record, original in zip(contents.records, raw, strict=True):
            assert record.model_dump(include=original.keys() - {"rollouts", "rewards"}).items() <= original.items()
            if model is RolloutGroup:
                for rollout, row in zip(record.rollouts, original["rollouts"], strict=True):
                    assert rollout.model_dump(include=set(row)) == row
            else:
                assert record.rewards.model_dump() == original["rewards"]


def test_repeated_problems_of_the_recorded_files_count_once(recorded):
    groups = read(recorded["generator_1_rollouts"], RolloutGroup).records
    latest = StoredGroups(recorded["generator_1_rollouts"])
    assert (len(groups), len(latest)) == (33, 30)
    last = {record.problem_id: record for record in groups}
    assert all(latest[key, 0] == record for key, record in last.items())
    assert len(StoredFusions(recorded["critic_results"])) == 60


def written(tmp_path, *lines):
    path = tmp_path / "others.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return path


def test_nulls_numbers_and_missing_keys_are_accepted(tmp_path):
    path = written(
        tmp_path,
        {"problem_id": 7, "problem_text": None, "ground_truth": 33, "rollouts": [{"answer": 33, "r_ans": None}]},
        b'{"problem_id": "b", "rollouts": [{"rollout_id": "4", "scaffold": "{\'a\': 1}", "r_total": NaN}]}',
    )
    contents = read(path, RolloutGroup)
    assert contents.broken == []
    first, second = contents.records
    assert (first.problem_id, first.problem_text, first.ground_truth, first.timestamp) == ("7", "", "33", "")
    assert (first.rollouts[0].rollout_id, first.rollouts[0].answer) == (1, "33")
    assert (second.rollouts[0].rollout_id, second.rollouts[0].scaffold) == (4, "{'a': 1}")
    assert second.rollouts[0].r_total is None


def test_lone_surrogates_in_files_of_other_programs_become_question_marks(tmp_path):
    """``json.dumps`` writes them as escapes; a prompt that contains one cannot be encoded."""
    scaffold = json.dumps({"rule": "\ud835"})
    path = written(
        tmp_path,
        {
            "problem_id": "a",
            "problem_text": "\ud835?",
            "rollouts": [{"answer": "\ud83d\ude00\udfd2", "scaffold": scaffold}],
        },
    )
    (record,) = read(path, RolloutGroup).records
    assert (record.problem_text, record.rollouts[0].answer) == ("??", "\N{GRINNING FACE}?")
    assert record.rollouts[0].scaffold == scaffold
    record.model_dump_json()


def test_a_fusion_without_rewards_is_read(tmp_path):
    path = written(tmp_path, {"problem_id": "a", "rewards": None, "final_answer": 5, "generator_id": None})
    (record,) = read(path, Fusion).records
    assert (record.final_answer, record.generator_id, record.rewards) == ("5", "", Rewards())


def test_broken_lines_are_reported_and_the_others_read(tmp_path):
    good = {"problem_id": "a", "rollouts": [{}]}
    path = written(
        tmp_path,
        b"\xef\xbb\xbf" + json.dumps(good).encode(),
        b'{"problem_id": "cut',
        b"",
        b'{"problem_id": "\xff"}',
        b"[1]",
        b"[" * 100_000,
        {"rollouts": [{}]},
        {"problem_id": "a", "rollouts": []},
        {"problem_id": "a", "rollouts": [{"r_ans": "high"}]},
        {"problem_id": "a", "rollouts": [3]},
        good | {"format": 99},
        b'{"problem_id": "b", "rollouts": [{"r_ans": ' + b"9" * 5000 + b"}]}",
        good,
        b'{"problem_id": "tail',
    )
    contents = read(path, RolloutGroup)
    assert [record.problem_id for record in contents.records] == ["a", "a"]
    assert [(line.number, line.reason.partition(":")[0]) for line in contents.broken] == [
        (2, "not JSON"),
        (4, "not UTF-8 at byte 16"),
        (5, "expected a JSON object, got list"),
        (6, "nested too deeply"),
        (7, "no problem_id"),
        (8, "no rollouts"),
        (9, "rollouts.0.r_ans"),
        (10, "rollout 1 is not an object"),
        (11, "format 99 was written by a newer version; this one reads up to 1"),
        (12, "not JSON"),
        (14, "the last line is cut off"),
    ]
    assert str(contents.broken[0]).startswith(f"{path}:2: not JSON")


def test_a_line_of_ten_megabytes_is_read(tmp_path):
    path = written(tmp_path, {"problem_id": "a", "problem_text": "x" * (10 << 20), "rollouts": [{}]})
    (record,) = read(path, RolloutGroup).records
    assert len(record.problem_text) == 10 << 20


def test_an_empty_file_has_no_records_and_a_missing_one_is_an_error(tmp_path):
    path = written(tmp_path)
    assert read(path, RolloutGroup).records == []
    with pytest.raises(MissingInputError, match=r"absent\.jsonl"):
        read(tmp_path / "absent.jsonl", RolloutGroup)
    assert list(read_each(tmp_path / "absent.jsonl", RolloutGroup, [], missing_ok=True)) == []


def test_the_last_complete_record_of_a_problem_wins(tmp_path):
    open_call = Outcome.INFRA_FAULT
    groups = [
        group("a", answer="1"),
        group("b", outcome=open_call, answer="2"),
        group("a", answer="3"),
        group("a", outcome=open_call, answer="4"),
        group("a", epoch=1, answer="5"),
        group("b", outcome=open_call, answer="6"),
    ]
    store = RolloutStore(tmp_path / "groups.jsonl")
    for record in groups:
        store.append(record)
    latest = StoredGroups(store.path, with_incomplete=True)
    assert {key: record.rollouts[0].answer for key, record in latest.items()} == {
        ("a", 0): "3",
        ("b", 0): "6",
        ("a", 1): "5",
    }


def test_fusions_of_different_generators_are_kept_separately(tmp_path):
    fusions = [
        fusion("generator_1", answer="1"),
        fusion("generator_2"),
        fusion("generator_1", Outcome.INFRA_FAULT),
    ]
    store = RolloutStore(tmp_path / "fusions.jsonl")
    for record in fusions:
        store.append(record)
    latest = StoredFusions(store.path, with_incomplete=True)
    assert {key[2]: record.final_answer for key, record in latest.items()} == {"generator_1": "1", "generator_2": "1"}


def test_a_growing_file_is_read_line_by_line_as_it_is_written(tmp_path):
    store = RolloutStore(tmp_path / "a.jsonl")
    reader = LineReader(store.path)

    def new(**options):
        return [(line.number, line.fault) for line in reader.read(**options)]

    assert new() == []
    store.append(group("a"))
    store.append(group("b"))
    assert new() == [(1, ""), (2, "")]
    with store.path.open("ab") as half:
        half.write(b'{"problem_id": "c", "rollouts"')
    assert new() == []
    with store.path.open("ab") as half:
        half.write(b': [{}]}\nbroken\n{"problem_id": "d", "rollouts": [{}]}')
    assert new() == [(3, ""), (4, "")]
    assert new(to_the_end=True) == [(5, "")]
