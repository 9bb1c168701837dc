import json

import pytest

from engine.records import RolloutGroup
from engine.storage.rollout_store import read
from grpo_training.view.data.record_index import NotFoundError, rollout_index
from grpo_training.view.pages.overview import dead_rewards
from tests.conftest import shared_file
from tests.support.viewer_runs import append, group, write


def indexed(path, **arguments):
    index = rollout_index(path, **arguments)
    index.update()
    return index


def test_the_summary_of_a_group(tmp_path):
    index = indexed(write(tmp_path / "generator_1_rollouts.jsonl", [group("p1", [0.2, 0.6, 1.0, 0.2], at=61)]))
    [summary] = index.all()
    assert (summary.line, summary.problem_id, summary.rollouts, summary.right, summary.checked) == (1, "p1", 4, 2, 4)
    assert summary.mean == pytest.approx(0.5)
    assert summary.sigma == pytest.approx(0.3316625)  # sqrt((0.09 + 0.01 + 0.25 + 0.09) / 4)
    assert summary.triggered
    assert (summary.prompt_tokens, summary.completion_tokens) == (400, 80)
    assert summary.cost_usd == pytest.approx(0.004)
    logic = summary.components["r_logic"]
    assert (logic.mean, logic.low, logic.high, logic.measured) == (pytest.approx(0.5), 0.2, 1.0, 4)
    assert summary.timestamp == "2026-01-02T00:01:01+00:00"
    assert summary.model == "tiny"


def test_a_failed_call_leaves_the_group_without_statistics(tmp_path):
    [summary] = indexed(write(tmp_path / "a_rollouts.jsonl", [group("p1", [0.5, None])])).all()
    assert (summary.mean, summary.sigma, summary.complete, summary.triggered) == (None, None, False, False)
    assert summary.outcomes == {"ok": 1, "infra_fault": 1}
    assert summary.faults == {"http_429": 1}


def test_only_what_was_appended_is_read(tmp_path):
    path = write(tmp_path / "a_rollouts.jsonl", [group("p1", [0.1, 0.9])])
    index = indexed(path)
    start = path.stat().st_size
    append(path, [group("p2", [0.3, 0.3])])
    overwritten = bytearray(path.read_bytes())
    overwritten[10:20] = b"##########"  # what was read before is not looked at again
    path.write_bytes(overwritten)
    index.update()
    assert [summary.problem_id for summary in index.all()] == ["p1", "p2"]
    assert index.all()[1].place.start == start
    assert index.broken == []


def test_a_line_that_is_being_written_is_read_when_it_is_complete(tmp_path):
    path = write(tmp_path / "a_rollouts.jsonl", [group("p1", [0.1, 0.9]), group("p2", [0.3, 0.3])])
    content = path.read_bytes()
    path.write_bytes(content[:-30])
    index = indexed(path)
    assert [summary.problem_id for summary in index.all()] == ["p1"]
    path.write_bytes(content)
    index.update()
    assert [summary.problem_id for summary in index.all()] == ["p1", "p2"]
    assert index.broken == []


def test_a_last_line_that_stays_cut_off_is_reported(tmp_path):
    path = write(tmp_path / "a_rollouts.jsonl", [group("p1", [0.1, 0.9])])
    path.write_bytes(path.read_bytes() + b'{"problem_id": "p2", "rol')
    index = indexed(path, now=lambda: path.stat().st_mtime + 60)
    assert [(line.number, line.reason) for line in index.broken] == [(2, "the last line is cut off")]


def test_a_replaced_file_is_read_from_its_start(tmp_path):
    path = write(tmp_path / "a_rollouts.jsonl", [group("p1", [0.1, 0.9]), group("p2", [0.1, 0.9])])
    index = indexed(path)
    write(path, [group("p3", [0.5, 0.6])])
    index.update()
    assert [summary.problem_id for summary in index.all()] == ["p3"]
    with pytest.raises(NotFoundError):
        index.record_of_line("2")


def test_a_budget_stops_after_a_line_and_the_next_call_goes_on(tmp_path):
    groups = [group(f"p{number}", [0.1, 0.9]) for number in range(5)]
    long = [stored.model_copy(update={"problem_text": "x" * 300_000}) for stored in groups]
    path = write(tmp_path / "a_rollouts.jsonl", long)
    index = rollout_index(path, clock=iter(range(100)).__next__)
    index.update(budget_s=1.5)
    assert len(index.all()) == 2
    assert index.progress() == pytest.approx(0.4, abs=0.01)
    index.update()
    assert (len(index.all()), index.progress()) == (5, 1.0)


def test_a_later_complete_group_replaces_an_earlier_one(tmp_path):
    groups = [group("p1", [0.5, None]), group("p2", [0.1, 0.2]), group("p1", [0.5, 0.7]), group("p1", [0.5, None])]
    index = indexed(write(tmp_path / "a_rollouts.jsonl", groups))
    assert [summary.line for summary in index.current()] == [3, 2]
    assert [index.is_current(summary) for summary in index.all()] == [False, True, True, False]


def test_groups_are_in_problem_order_whatever_the_order_of_their_completion(tmp_path):
    done = [group(f"p{step}", [0.1, 0.2]).model_copy(update={"step": step}) for step in (2, 0, 1)]
    index = indexed(write(tmp_path / "a_rollouts.jsonl", [group("foreign", [0.3, 0.3]), *done]))
    assert [summary.problem_id for summary in index.current()] == ["foreign", "p0", "p1", "p2"]
    assert [summary.problem_id for summary in index.all()] == ["foreign", "p2", "p0", "p1"]


BROKEN = {
    b'{"problem_id": "p", "rollouts": []}': "no rollouts",
    b'{"problem_id": "", "rollouts": [{}]}': "no problem_id",
    b'{"problem_id": "p", "rollouts": [3]}': "not an object",
    b"[1, 2]": "expected a JSON object",
    b"not json at all": "not JSON",
    b'{"problem_id": "p", "problem_text": "\xff\xfe", "rollouts": [{"r_total": 0.5}]}': "not UTF-8",
    b'{"problem_id": "p", "rollouts": [{"scaffold": "\xc3\x28"}]}': "not UTF-8",
    b'{"problem_id": "p", "rollouts": [{"is_correct": "perhaps"}]}': "is_correct",
    b'{"problem_id": "p", "rollouts": [{"outcome": "great"}]}': "outcome",
    b'{"problem_id": "p", "format": 99, "rollouts": [{}]}': "newer version",
    b"[" * 100_000: "nested",
    b'{"problem_id": "p", "rollouts": [{"r_total": 1e300}, {"r_total": 0}]}': "out of range",
    b'{"problem_id": "p", "rollouts": [{"components": {"speed": -1e200}}]}': "out of range",
    b'{"problem_id": "p", "rollouts": [{"completion": {"text": "", "usage": {"prompt_tokens": 1%s}}}]}'
    % (b"0" * 400): "range",
}


@pytest.mark.parametrize(("line", "reason"), BROKEN.items(), ids=range(len(BROKEN)))
def test_a_broken_line_is_counted_with_its_reason_and_the_others_are_read(tmp_path, line, reason):
    path = write(tmp_path / "a_rollouts.jsonl", [group("p1", [0.1, 0.9])])
    path.write_bytes(line + b"\n" + path.read_bytes())
    index = indexed(path)
    [broken] = index.broken
    assert broken.number == 1
    assert reason in broken.reason
    assert [summary.line for summary in index.all()] == [2]


FOREIGN = {
    "numbers as texts": {"problem_id": 7, "rollouts": [{"r_total": "0.25", "is_correct": 1}]},
    "nulls": {"problem_id": "p", "epoch": None, "rollouts": [{"r_total": None, "outcome": None, "components": None}]},
    "not a number": '{"problem_id": "p", "rollouts": [{"r_total": NaN, "r_ans": 1}]}',
    "half a surrogate pair": '{"problem_id": "p\\ud83d", "rollouts": [{"answer": "\\udfff", "r_total": 1}]}',
    "own components": {"problem_id": "p", "rollouts": [{"components": {"speed": 0.5, "odd": None}, "r_total": 0.5}]},
    "byte order mark": "\ufeff" + json.dumps({"problem_id": "p", "rollouts": [{"r_total": 0.5}]}),
}


@pytest.mark.parametrize("line", FOREIGN.values(), ids=FOREIGN)
def test_formats_that_other_programs_wrote_are_summarised_as_the_reader_reads_them(tmp_path, line):
    path = tmp_path / "a_rollouts.jsonl"
    path.write_text((line if isinstance(line, str) else json.dumps(line)) + "\n", encoding="utf-8")
    [expected] = read(path, RolloutGroup).records
    [summary] = indexed(path).all()
    assert summary.problem_id == expected.problem_id
    assert summary.rollouts == len(expected.rollouts)
    assert summary.right == sum(rollout.is_correct is True for rollout in expected.rollouts)
    first = expected.rollouts[0]
    assert summary.mean == first.r_total
    measured = {name: value for name, value in first.rewards.by_name().items() if value is not None}
    assert {name: spread.mean for name, spread in summary.components.items()} == measured


def test_the_whole_group_is_read_by_its_place(tmp_path):
    groups = [group("p1", [0.1, 0.9]), group("p2", [0.3, 0.7], text="Größe? 数")]
    path = write(tmp_path / "a_rollouts.jsonl", groups)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\n\n  \n", 1))
    index = indexed(path)
    assert index.record(index.all()[1]) == groups[1]
    path.write_bytes(b"")
    with pytest.raises(NotFoundError, match="replaced"):
        index.record(index.all()[1])


def test_components_that_no_longer_vary_raise_an_alarm(tmp_path):
    groups = [group(f"p{number}", [0.1, 0.9]) for number in range(12)]  # r_graph is always 0.5
    [dead] = dead_rewards(indexed(write(tmp_path / "a_rollouts.jsonl", groups)).all())
    assert (dead.component, dead.alarms) == ("r_graph", 1)
    assert (dead.dead.value, dead.dead.groups, dead.dead.rollouts) == (0.5, 10, 20)


@pytest.mark.parametrize("name", ["generator_1_rollouts.jsonl", "generator_2_rollouts.jsonl"])
def test_recorded_rollouts_have_the_rewards_that_the_reader_finds(name):
    path = shared_file(f"recorded/{name}")
    expected, index = read(path, RolloutGroup), indexed(path)
    assert len(index.all()) == len(expected.records)
    assert len(index.broken) == len(expected.broken)
    for summary, record in zip(index.all(), expected.records, strict=True):
        assert summary.right == sum(rollout.is_correct is True for rollout in record.rollouts)
        rewards = [rollout.r_total for rollout in record.rollouts]
        assert summary.mean == (None if None in rewards else pytest.approx(sum(rewards) / len(rewards)))
