import json
import multiprocessing
import os
import random
import re
import signal
import time
from datetime import UTC, datetime

import pytest

from engine.errors import InputError
from engine.experience.library import ExperienceLibrary, StepOutcome, library_prefix
from engine.experience.state import EMPTY, MAX_PROPOSALS
from engine.records import GroupStats, Operation, Problem, Uses

FORK = multiprocessing.get_context("fork")
STATS = GroupStats(mean=0.4, std=0.2, advantages=[1.0, -1.0], triggered=True)
PROBLEM = Problem(id="p1", text="How many lattice points lie inside the given circle?", answer="253")
LESSONS = [
    "Split by parity before counting solutions.",
    "Convert every quantity to SI units first.",
    "Draw a figure and label known angles.",
    "Test conjectures on small cases early.",
    "Bound the variable, then enumerate what remains.",
]


def clock(day=1):
    return lambda: datetime(2026, 1, day, tzinfo=UTC)


def outcome(number=0, run="r", used=(), **more):
    return StepOutcome(run, number, PROBLEM, 0, used, more.pop("rollouts", 3), more.pop("correct", 1), STATS)


def add(content, **more):
    return Operation(op="add", content=content, **more)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "generator_1_experiences.json"


@pytest.fixture
def library(path):
    library = ExperienceLibrary(path, clock=clock())
    for number, lesson in enumerate(LESSONS[:3]):
        library.commit_step(outcome(number), [add(lesson, category="math")])
    return library


def entries(path):
    return json.loads(path.read_text(encoding="utf-8"))


def log_of(path):
    return path.with_suffix(".ops.jsonl")


def contents(library):
    return [one.content for one in library.state.experiences]


def test_the_files_are_those_of_the_format(library, path):
    assert entries(path)[0] == {
        "id": "G1-001",
        "content": LESSONS[0],
        "category": "math",
        "source_problem": "p1",
        "created_at": "2026-01-01T00:00:00+00:00",
        "status": "active",
        "evidence": [{"problem_id": "p1", "epoch": 0, "mean": 0.4, "std": 0.2}],
        "uses": {"rollouts": 0, "correct": 0},
    }
    assert [one["id"] for one in entries(path)] == ["G1-001", "G1-002", "G1-003"]
    lines = [json.loads(line) for line in log_of(path).read_text().splitlines()]
    assert [(line["event"], line["step"], line["operations"][0]["id"]) for line in lines] == [
        ("step", 0, "G1-001"),
        ("step", 1, "G1-002"),
        ("step", 2, "G1-003"),
    ]


def test_what_is_opened_again_is_the_same(library, path):
    again = ExperienceLibrary(path)
    assert again.state == library.state
    assert again.history() == library.history()
    assert again.notices == []


def test_the_same_steps_give_the_same_bytes_apart_from_times(tmp_path):
    files = []
    for day in (1, 2):
        path = tmp_path / str(day) / "generator_1_experiences.json"
        library = ExperienceLibrary(path, clock=clock(day))
        for number, lesson in enumerate(LESSONS):
            used = [one.id for one in library.state.experiences]
            library.commit_step(outcome(number, used=used), [add(lesson), Operation(op="delete", id="G1-002")])
        files.append(re.sub(rb'"created_at": ".*"', b"", path.read_bytes()))
    assert files[0] == files[1]
    assert b"G1-005" in files[0]


def test_a_step_is_applied_once_and_told_again(library, path):
    first = library.commit_step(outcome(7), [add(LESSONS[3]), Operation(op="delete", id="G1-999")])
    library.commit_step(outcome(8, used=["G1-001"]))
    before = path.read_bytes(), log_of(path).read_bytes()
    for one in (library, ExperienceLibrary(path)):
        assert one.commit_step(outcome(7), [add(LESSONS[4])]) == first
    assert [refusal.reason for refusal in first.refused] == ["unknown_id"]
    assert (path.read_bytes(), log_of(path).read_bytes()) == before


def test_uses_are_counted_also_where_nothing_is_learned(library, path):
    library.commit_step(outcome(3, used=["G1-001", "G1-003"], rollouts=3, correct=2))
    assert [one["uses"]["rollouts"] for one in entries(path)] == [3, 0, 3]
    assert library.state.get("G1-001").uses == Uses(rollouts=3, correct=2)


def test_the_start_and_the_steps_of_a_run_come_back_after_a_restart(path):
    library = ExperienceLibrary(path)
    library.commit_step(outcome(0, run="other"), [add(LESSONS[0])])
    start = library.begin_run("r")
    library.commit_step(outcome(1, run="other"), [add(LESSONS[1])])
    steps = [library.commit_step(outcome(number), [add(LESSONS[2 + number])]) for number in (0, 1)]
    assert [len(state.experiences) for state in (start, steps[0].state, steps[1].state)] == [1, 3, 4]
    again = ExperienceLibrary(path)
    assert again.begin_run("r") == start
    assert [again.recorded("r", number) for number in (0, 1, 2)] == [*steps, None]


def test_pin_edit_and_rollback(library, path):
    version = library.state.version
    library.pin("G1-001")
    refused = library.commit_step(outcome(3), [Operation(op="delete", id="G1-001")]).refused
    assert [refusal.reason for refusal in refused] == ["pinned"]
    library.edit([Operation(op="modify", id="G1-001", content="Try parity."), add(LESSONS[3])])
    library.unpin("G1-001")
    assert contents(library) == ["Try parity.", *LESSONS[1:4]]
    assert library.rollback(version[:5]).version == version
    assert [one["content"] for one in entries(path)] == LESSONS[:3]
    assert library.commit_step(outcome(4), [add(LESSONS[4])]).applied[0].id == "G1-005"
    assert [entry.event.event for entry in library.history()] == ["step"] * 3 + [
        "edit",
        "step",
        "edit",
        "edit",
        "rollback",
        "step",
    ]


def test_an_edit_is_whole_or_not_at_all(library):
    with pytest.raises(InputError, match="Cannot delete G1-999: The library holds no experience of this id"):
        library.edit([Operation(op="delete", id="G1-001"), Operation(op="delete", id="G1-999")])
    assert contents(library) == LESSONS[:3]


def test_a_version_that_is_not_there_is_said(library):
    with pytest.raises(InputError, match="No version ffff"):
        library.rollback("ffff")
    with pytest.raises(InputError, match="No version 1"):
        library.at_version(library.state.version[:3] and "1")
    assert library.at_version(EMPTY.version) == EMPTY


def test_edits_by_hand_in_the_json_file_are_taken_in(library, path):
    told = entries(path)
    told[0]["content"] = "Try parity first."
    told[1]["status"] = "pinned"
    del told[2]
    told.append({"content": LESSONS[4], "category": "Own Words"})
    path.write_text(json.dumps(told))
    again = ExperienceLibrary(path)
    assert contents(again) == ["Try parity first.", LESSONS[1], LESSONS[4]]
    assert [(one["id"], one["status"]) for one in entries(path)] == [
        ("G1-001", "active"),
        ("G1-002", "pinned"),
        ("G1-004", "active"),
    ]
    assert again.notices == [f"{path}: 4 manual edits were imported"]
    assert [operation.op for operation in again.history()[-1].event.operations] == [
        "delete",
        "modify",
        "pin",
        "add",
    ]
    assert ExperienceLibrary(path).notices == []


def test_many_edits_by_hand_are_no_flood(library, path):
    new = [{"content": f"Lesson number {number}: look twice."} for number in range(MAX_PROPOSALS + 8)]
    path.write_text(json.dumps(entries(path) + new))
    assert len(ExperienceLibrary(path).state.experiences) == 3 + MAX_PROPOSALS + 8


def test_edits_by_hand_during_a_run_are_taken_in_before_the_next_step(library, path):
    told = entries(path)
    told[0]["content"] = "Try parity first."
    path.write_text(json.dumps(told))
    library.commit_step(outcome(3), [add(LESSONS[3])])
    assert contents(library) == ["Try parity first.", *LESSONS[1:4]]


def test_a_reformatted_file_is_no_edit(library, path):
    path.write_text(json.dumps(entries(path)))
    assert len(ExperienceLibrary(path).history()) == 3


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda told: told[:40], "is not JSON"),
        (lambda told: "{}", "expected an array"),
        (lambda told: told.replace("Draw a figure", "word " * 33), r"entry 3 \(G1-003\): 37 words; at most 32"),
        (lambda told: told.replace("active", "asleep"), "entry 1: status"),
        (lambda told: "[3]", "entry 1: expected an object"),
        (lambda told: told + "\udcff", "not JSON"),
    ],
)
def test_a_file_that_cannot_be_taken_in_is_an_error_that_says_where_and_changes_nothing(library, path, damage, message):
    damaged = damage(path.read_text()).encode(errors="surrogateescape")
    path.write_bytes(damaged)
    log = log_of(path).read_bytes()
    with pytest.raises(InputError, match=message):
        ExperienceLibrary(path)
    assert path.read_bytes() == damaged
    assert log_of(path).read_bytes() == log


def test_a_bad_edit_during_a_run_is_set_aside_and_the_run_goes_on(library, path):
    path.write_bytes(b"[{broken")
    library.commit_step(outcome(3), [add(LESSONS[3])])
    assert contents(library) == LESSONS[:4]
    assert [one["content"] for one in entries(path)] == LESSONS[:4]
    aside = path.with_name(path.name + ".rejected-20260101T000000")
    assert aside.read_bytes() == b"[{broken"
    assert aside.name in library.notices[0]


def test_a_library_of_another_program_is_imported_once(path):
    path.write_text(
        json.dumps(
            [
                {
                    "id": "G1-004",
                    "content": LESSONS[0],
                    "category": "causal_graph",
                    "source_problem": 3,
                    "more": 1,
                },
                {"content": LESSONS[1], "created_at": None},
                {"id": "G1-004", "content": LESSONS[2]},
                {"id": "../evil", "content": LESSONS[3], "evidence": None},
            ]
        )
    )
    library = ExperienceLibrary(path, clock=clock())
    assert [(one.id, one.source_problem) for one in library.state.experiences] == [
        ("G1-004", "3"),
        ("G1-005", ""),
        ("G1-006", ""),
        ("G1-007", ""),
    ]
    assert library.notices == [f"{path}: 4 experiences were imported"]
    assert [entry.event.event for entry in ExperienceLibrary(path).history()] == ["import"]
    assert library.commit_step(outcome(), [add(LESSONS[4])]).applied[0].id == "G1-008"


@pytest.mark.parametrize("content", [None, b"", b"[]", b"[]\n", b" \n"])
def test_nothing_is_an_empty_library(path, content):
    if content is not None:
        path.write_bytes(content)
    library = ExperienceLibrary(path)
    assert library.state.experiences == ()
    assert library.commit_step(outcome(), [add(LESSONS[0])]).applied[0].id == "G1-001"


def test_opening_what_is_not_there_writes_nothing(path):
    ExperienceLibrary(path)
    assert list(path.parent.iterdir()) == []


def test_looking_only_changes_nothing(library, path):
    told = entries(path)
    told[0]["content"] = "Try parity first."
    path.write_text(json.dumps(told))
    with log_of(path).open("ab") as half:
        half.write(b'{"event": "st')
    before = {entry.name: entry.read_bytes() for entry in path.parent.iterdir()}
    looking = ExperienceLibrary(path, read_only=True)
    assert contents(looking) == LESSONS[:3]
    assert "edited manually" in looking.notices[0]
    with pytest.raises(RuntimeError):
        looking.pin("G1-001")
    assert {entry.name: entry.read_bytes() for entry in path.parent.iterdir()} == before


def test_looking_at_a_file_without_log(path):
    path.write_text(json.dumps([{"id": "G1-001", "content": LESSONS[0]}]))
    assert contents(ExperienceLibrary(path, read_only=True)) == [LESSONS[0]]
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(("name", "prefix"), [("generator_1", "G1"), ("generator_12", "G12"), ("critic", "C")])
def test_the_prefix_of_a_library(name, prefix):
    assert library_prefix(name) == prefix


def test_a_library_that_nobody_has(tmp_path):
    with pytest.raises(InputError, match="Unknown library 'teacher'"):
        library_prefix("teacher")


def test_a_log_cut_at_any_byte_of_its_last_line_is_recovered(library, path):
    whole, told = log_of(path).read_bytes(), path.read_bytes()
    start = whole[:-1].rfind(b"\n") + 1
    before = library.history()[-1].before
    for cut in range(start, len(whole) + 1):
        log_of(path).write_bytes(whole[:cut])
        path.write_bytes(json.dumps(json.loads(told)[:2], indent=2).encode() + b"\n")  # a crash is before the file
        again = ExperienceLibrary(path)
        if cut >= len(whole) - 1:
            assert again.state == library.state
            assert path.read_bytes() == told
        else:
            assert again.state == before
            number = again.commit_step(outcome(2), [add(LESSONS[2])]).applied[0].id
            assert number == "G1-003"


def test_a_crash_between_log_and_file_is_mended_by_the_log(library, path):
    told = path.read_bytes()
    library.commit_step(outcome(3), [add(LESSONS[3])])
    newer = path.read_bytes()
    for old in (told, None):
        path.unlink() if old is None else path.write_bytes(old)
        again = ExperienceLibrary(path)
        assert again.state == library.state
        assert path.read_bytes() == newer
        assert again.notices == []
        assert len(again.history()) == 4


def test_a_crash_within_an_import_or_an_edit_does_not_do_it_twice(path):
    foreign = json.dumps([{"content": LESSONS[0]}, {"id": "X-9", "content": LESSONS[1]}]).encode()
    path.write_bytes(foreign)
    first = ExperienceLibrary(path).state
    path.write_bytes(foreign)
    again = ExperienceLibrary(path)
    assert again.state == first
    edited = json.dumps([*entries(path), {"content": LESSONS[2]}]).encode()
    path.write_bytes(edited)
    after = ExperienceLibrary(path).state
    path.write_bytes(edited)
    assert ExperienceLibrary(path).state == after


def test_a_damaged_line_in_the_middle_of_the_log_stops_with_its_number(library, path):
    lines = log_of(path).read_bytes().splitlines(keepends=True)
    log_of(path).write_bytes(lines[0] + b'{"event": "step", "at": 3}\n' + lines[2])
    with pytest.raises(InputError, match="line 2"):
        ExperienceLibrary(path)


def test_a_log_that_is_taken_away_during_a_run_is_said(library, path):
    log_of(path).unlink()
    with pytest.raises(InputError, match="replaced or truncated"):
        library.commit_step(outcome(9))


def _commit_forever(path, run, pipe, first):
    library = ExperienceLibrary(path)
    for number in range(first, first + 10**6):
        operations = [add(f"Rule w{number}a w{number}b of {run}.")]
        if live := library.state.experiences[:-20]:
            operations.insert(0, Operation(op="delete", id=live[0].id))
        result = library.commit_step(outcome(number, run=run), operations)
        os.write(pipe, f"{number} {result.applied[-1].id}\n".encode())


def test_kill_9_of_two_writers_at_random_moments_loses_no_operation(path):
    chance = random.Random(2)
    said = {}
    begun = {"a": 0, "b": 0}
    for _ in range(6):
        children = []
        for run in begun:
            inside, outside = os.pipe()
            process = FORK.Process(target=_commit_forever, args=(path, run, outside, begun[run]))
            process.start()
            os.close(outside)
            children.append((run, process, inside))
        time.sleep(0.15 + chance.random() * 0.1)
        for run, process, inside in children:
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            with os.fdopen(inside, "rb") as pipe:
                for line in pipe.read().splitlines(keepends=True):
                    if line.endswith(b"\n"):
                        number, experience_id = line.split()
                        said[run, int(number)] = experience_id.decode()
        library = ExperienceLibrary(path)
        assert json.loads(path.read_bytes()) == [one.model_dump(mode="json") for one in library.state.experiences]
        recorded = {(entry.event.run, entry.event.step): entry.event.operations[-1].id for entry in library.history()}
        assert said.items() <= recorded.items()
        ids = [
            operation.id for entry in library.history() for operation in entry.event.operations if operation.op == "add"
        ]
        assert len(ids) == len(set(ids))
        begun = {run: 1 + max([step for name, step in recorded if name == run], default=-1) for run in begun}
    assert min(begun.values()) > 3


def test_two_processes_that_write_together_lose_nothing(path):
    def work(run):
        library = ExperienceLibrary(path)
        for number in range(25):
            library.commit_step(outcome(number, run=run), [add(f"Rule w{number}a w{number}b of {run}.")])

    processes = [FORK.Process(target=work, args=(run,)) for run in ("a", "b")]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    library = ExperienceLibrary(path)
    assert sorted(contents(library)) == sorted(f"Rule w{n}a w{n}b of {run}." for n in range(25) for run in "ab")
    assert [one.id for one in library.state.experiences] == [f"G1-{number:03d}" for number in range(1, 51)]
