import json
import random
import re
import time

import pytest

from engine.errors import InputError
from engine.experience.events import BeginEvent
from engine.experience.library import ExperienceLibrary, library_prefix
from engine.records import Uses
from tests.support.library import (
    CONTENTS,
    add,
    by_hand,
    clock,
    commit,
    contents,
    entries,
    log_of,
    mark,
    outcome,
    rendered,
)


def test_the_json_file_and_the_log_have_the_documented_format(library, path):
    assert entries(path)[0] == {
        "id": "G1-001",
        "content": CONTENTS[0],
        "category": "math",
        "source_problem": "p1",
        "created_at": "2026-01-01T00:00:00+00:00",
        "status": "active",
        "evidence": [{"problem_id": "p1", "epoch": 0, "mean": 0.4, "std": 0.2}],
        "uses": {"rollouts": 0, "correct": 0},
    }
    assert [entry["id"] for entry in entries(path)] == ["G1-001", "G1-002", "G1-003"]
    lines = [json.loads(line) for line in log_of(path).read_text().splitlines()]
    assert [(line["event"], line["step"], line["operations"][0]["id"]) for line in lines] == [
        ("step", 0, "G1-001"),
        ("step", 1, "G1-002"),
        ("step", 2, "G1-003"),
    ]


def test_a_reopened_library_has_the_same_state(library, path):
    again = ExperienceLibrary(path)
    assert again.state == library.state
    assert again.history() == library.history()
    assert again.notices == []


def test_equal_steps_give_equal_files_apart_from_times(tmp_path):
    files = []
    for day in (1, 2):
        path = tmp_path / str(day) / "generator_1_experiences.json"
        library = ExperienceLibrary(path, clock=clock(day))
        for number, content in enumerate(CONTENTS):
            used = [experience.id for experience in library.state.experiences]
            commit(library, outcome(number, used=used), [add(content), add("word " * 33)])
        files.append(re.sub(rb'"created_at": ".*"', b"", path.read_bytes()))
    assert files[0] == files[1]
    assert b"G1-005" in files[0]


def test_a_repeated_step_returns_the_recorded_result(library, path):
    first = commit(library, outcome(7), [add(CONTENTS[3]), add("word " * 33)])
    commit(library, outcome(8, used=["G1-001"]))
    before = path.read_bytes(), log_of(path).read_bytes()
    for opened in (library, ExperienceLibrary(path)):
        assert commit(opened, outcome(7), [add(CONTENTS[4])]) == first
    assert [refusal.reason for refusal in first.refused] == ["too_many_words"]
    assert (path.read_bytes(), log_of(path).read_bytes()) == before


def test_uses_are_counted_also_without_proposals(library, path):
    commit(library, outcome(3, used=["G1-001", "G1-003"], rollouts=3, correct=2))
    assert [entry["uses"]["rollouts"] for entry in entries(path)] == [3, 0, 3]
    assert library.state.get("G1-001").uses == Uses(rollouts=3, correct=2)


def test_the_start_and_the_steps_of_a_run_come_back_after_a_restart(path):
    library = ExperienceLibrary(path)
    commit(library, outcome(0, run="other"), [add(CONTENTS[0])])
    start = library.begin_run(BeginEvent(at="", run="r"))
    commit(library, outcome(1, run="other"), [add(CONTENTS[1])])
    steps = [commit(library, outcome(number), [add(CONTENTS[2 + number])]) for number in (0, 1)]
    assert [len(state.experiences) for state in (start, steps[0].state, steps[1].state)] == [1, 3, 4]
    again = ExperienceLibrary(path)
    assert again.begin_run(BeginEvent(at="", run="r")) == start
    assert [again.recorded("r", number) for number in (0, 1, 2)] == [*steps, None]


def test_each_change_is_an_event_of_the_history(library, path):
    mark(library, "pin", "G1-001")
    library = by_hand(library, {"G1-001": "Try parity."}, [CONTENTS[3]])
    mark(library, "unpin", "G1-001")
    mark(library, "remove", "G1-002")
    assert contents(library) == ["Try parity.", *CONTENTS[2:4]]
    assert commit(library, outcome(4), [add(CONTENTS[4])]).applied[0].id == "G1-005"
    events = [entry.event.event for entry in library.history()]
    assert events == ["step"] * 3 + ["edit", "import", "edit", "edit", "step"]


def test_the_json_file_is_the_library_also_after_an_edit_by_hand(library, path):
    stored = entries(path)
    stored[0]["content"] = "Try parity first."
    stored[1]["status"] = "pinned"
    del stored[2]
    stored.append({"content": CONTENTS[4], "category": "Own Words"})
    path.write_text(json.dumps(stored))
    again = ExperienceLibrary(path)
    assert contents(again) == ["Try parity first.", CONTENTS[1], CONTENTS[4]]
    assert [(entry["id"], entry["status"]) for entry in entries(path)] == [
        ("G1-001", "active"),
        ("G1-002", "pinned"),
        ("G1-004", "active"),
    ]
    assert entries(path)[0]["evidence"] == stored[0]["evidence"]
    assert again.notices == [f"{path} was edited: 2 modified, 1 deleted, 1 added"]
    assert again.history()[-1].event.event == "import"
    assert ExperienceLibrary(path).notices == []


@pytest.mark.parametrize(
    ("written", "ids"),
    [
        ([{"content": CONTENTS[1]}, {"content": CONTENTS[0]}], ["G1-002", "G1-001"]),  # known by the text
        ([{"id": "g1-001", "content": "Another text."}], ["G1-001"]),
        ([{"id": "G1-003", "content": "The id of a removed one."}], ["G1-005"]),
        ([{"id": "G1-004", "content": CONTENTS[3]}], ["G1-004"]),  # forbidden, and back
        ([{"id": "G1-020", "content": "One."}, {"id": "G1-020", "content": "Two."}], ["G1-020", "G1-021"]),
        ([{"id": "mine", "content": "One."}, {"id": 7, "content": "Two."}, {"content": "Three."}],
         ["G1-005", "G1-006", "G1-007"]),
        ([], []),
    ],
)  # fmt: skip
def test_no_id_is_given_twice_whatever_a_file_says(library, path, written, ids):
    commit(library, outcome(3), [add(CONTENTS[3])])
    mark(library, "remove", "G1-003")
    mark(library, "forbid", "G1-004")
    path.write_text(json.dumps(written))
    assert [experience.id for experience in ExperienceLibrary(path, read_only=True).state.live] == ids
    again = ExperienceLibrary(path)
    assert [entry["id"] for entry in entries(path)] == ids
    new = commit(again, outcome(4), [add(CONTENTS[4])]).applied[0].id
    assert int(new[3:]) > max([4, *(int(name[3:]) for name in ids)])


def test_an_entry_keeps_what_a_hand_written_file_does_not_say_of_it(library, path):
    mark(library, "pin", "G1-001")
    before = library.state.get("G1-001")
    path.write_text(json.dumps([{"id": "G1-001", "content": "Another text."}]))
    assert ExperienceLibrary(path).state.get("G1-001") == before.model_copy(update={"content": "Another text."})


def test_the_file_holds_also_where_the_log_says_otherwise(library, path):
    lines = log_of(path).read_bytes().splitlines(keepends=True)
    for kept in (lines[:1], [lines[2], lines[0]], []):
        log_of(path).write_bytes(b"".join(kept))
        assert contents(ExperienceLibrary(path, read_only=True)) == CONTENTS[:3]
        assert contents(ExperienceLibrary(path)) == CONTENTS[:3]
        assert contents(ExperienceLibrary(path)) == CONTENTS[:3]


def test_the_number_of_manual_edits_is_not_limited(library, path):
    new = [{"content": f"Experience number {number}: look twice."} for number in range(40)]
    path.write_text(json.dumps(entries(path) + new))
    assert len(ExperienceLibrary(path).state.experiences) == 43


def test_manual_edits_during_a_run_are_imported_before_the_next_step(library, path):
    stored = entries(path)
    stored[0]["content"] = "Try parity first."
    path.write_text(json.dumps(stored))
    commit(library, outcome(3), [add(CONTENTS[3])])
    assert contents(library) == ["Try parity first.", *CONTENTS[1:4]]


def test_reformatting_the_file_is_not_an_edit(library, path):
    path.write_text(json.dumps(entries(path)))
    assert len(ExperienceLibrary(path).history()) == 3


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda stored: stored[:40],
            r"is not JSON\n(?s:.*)Or delete \S+\.json: it is written again as \S+\.ops\.jsonl has it",
        ),
        (lambda stored: "{}", "expected an array"),
        (lambda stored: stored.replace("Draw a figure", "word " * 33), r"entry 3 \(G1-003\): 37 words; at most 32"),
        (lambda stored: stored.replace("active", "asleep"), "entry 1: status"),
        (lambda stored: "[3]", "entry 1: expected an object"),
        (lambda stored: stored + "\udcff", "not JSON"),
    ],
)
def test_an_invalid_file_is_an_error_with_the_place_and_changes_nothing(library, path, damage, message):
    damaged = damage(path.read_text()).encode(errors="surrogateescape")
    path.write_bytes(damaged)
    log = log_of(path).read_bytes()
    with pytest.raises(InputError, match=message):
        ExperienceLibrary(path)
    assert path.read_bytes() == damaged
    assert log_of(path).read_bytes() == log


@pytest.mark.parametrize(
    "figures",
    [
        {"differences": 3, "sum": 1e308, "squares": 1e308},
        {"differences": 10**30},
        {"differences": -5, "sum": 1, "squares": 1},
        {"differences": 0, "sum": 1},
        {"differences": 5, "sum": 4, "squares": 3},
        {"differences": 5, "sum": 4, "squares": 4, "weight": 1e-300},
        {"differences": 5, "sum": 1, "squares": 4, "weight": -1},
        {"differences": 5, "sum": 1, "squares": 4, "weight": 6},
    ],
)
def test_figures_of_a_trial_that_no_differences_have_are_refused(path, figures):
    path.write_text(json.dumps([{"id": "G1-001", "content": CONTENTS[0], "trial": figures}]))
    with pytest.raises(InputError, match=r"entry 1: trial"):
        ExperienceLibrary(path)


def test_figures_of_a_trial_that_some_differences_have_are_read(path):
    figures = {"differences": 2, "sum": 0.000003, "squares": 4.0, "weight": 0.0}  # small likenesses, rounded
    path.write_text(json.dumps([{"id": "G1-001", "content": CONTENTS[0], "trial": figures}]))
    state = ExperienceLibrary(path).state
    assert state.get("G1-001").trial.differences == 2
    assert state.trials.belief(state.get("G1-001")).helps


def test_an_invalid_edit_during_a_run_is_moved_away_and_the_run_continues(library, path):
    path.write_bytes(b"[{broken")
    commit(library, outcome(3), [add(CONTENTS[3])])
    assert contents(library) == CONTENTS[:4]
    assert [entry["content"] for entry in entries(path)] == CONTENTS[:4]
    aside = path.with_name(path.name + ".rejected-20260101T000000")
    assert aside.read_bytes() == b"[{broken"
    assert aside.name in library.notices[0]


def test_a_library_of_another_program_is_imported_once(path):
    path.write_text(
        json.dumps(
            [
                {
                    "id": "G1-004",
                    "content": CONTENTS[0],
                    "category": "causal_graph",
                    "source_problem": 3,
                    "more": 1,
                },
                {"content": CONTENTS[1], "created_at": None},
                {"id": "G1-004", "content": CONTENTS[2]},
                {"id": "../evil", "content": CONTENTS[3], "evidence": None},
            ]
        )
    )
    library = ExperienceLibrary(path, clock=clock())
    assert [(experience.id, experience.source_problem) for experience in library.state.experiences] == [
        ("G1-004", "3"),
        ("G1-005", ""),
        ("G1-006", ""),
        ("G1-007", ""),
    ]
    assert library.notices == [f"{path} was edited: 4 added"]
    assert [entry.event.event for entry in ExperienceLibrary(path).history()] == ["import"]
    assert commit(library, outcome(), [add(CONTENTS[4])]).applied[0].id == "G1-008"


@pytest.mark.parametrize("content", [None, b"", b"[]", b"[]\n", b" \n"])
def test_a_missing_or_blank_file_is_an_empty_library(path, content):
    if content is not None:
        path.write_bytes(content)
    library = ExperienceLibrary(path)
    assert library.state.experiences == ()
    assert commit(library, outcome(), [add(CONTENTS[0])]).applied[0].id == "G1-001"


def test_opening_a_missing_library_writes_nothing(path):
    ExperienceLibrary(path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda text: text[:-5], "is not JSON"),
        (lambda text: text.replace("Try parity first.", " ".join(["word"] * 33)), "33 words; at most 32 are allowed"),
    ],
)
def test_an_invalid_edit_is_an_error_for_readers_too(library, path, edit, message):
    stored = entries(path)
    stored[0]["content"] = "Try parity first."
    path.write_text(edit(json.dumps(stored)))
    for read_only in (True, False):
        with pytest.raises(InputError, match=message):
            ExperienceLibrary(path, read_only=read_only)


def test_a_read_only_library_changes_nothing(library, path):
    stored = entries(path)
    stored[0]["content"] = "Try parity first."
    path.write_text(json.dumps(stored))
    with log_of(path).open("ab") as half:
        half.write(b'{"event": "st')
    before = {entry.name: entry.read_bytes() for entry in path.parent.iterdir()}
    looking = ExperienceLibrary(path, read_only=True)
    assert contents(looking) == ["Try parity first.", *CONTENTS[1:3]]
    assert looking.notices == [f"{path} was edited: 1 modified"]
    with pytest.raises(RuntimeError):
        mark(looking, "pin", "G1-001")
    assert {entry.name: entry.read_bytes() for entry in path.parent.iterdir()} == before


def test_a_read_only_library_of_a_file_without_a_log(path):
    path.write_text(json.dumps([{"id": "G1-001", "content": CONTENTS[0]}]))
    assert contents(ExperienceLibrary(path, read_only=True)) == [CONTENTS[0]]
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("name", "prefix"), [("generator_1", "G1"), ("generator_12", "G12"), ("critic", "C"), ("teacher", "X")]
)
def test_the_prefix_of_a_library(name, prefix):
    assert library_prefix(name) == prefix


@pytest.mark.parametrize(
    ("name", "prefix"), [("critic_experiences", "C"), ("generator_2_experiences", "G2"), ("of_others", "X")]
)
def test_ids_begin_as_the_name_of_the_file_says(tmp_path, name, prefix):
    library = ExperienceLibrary(tmp_path / f"{name}.json")
    commit(library, outcome(0), [add(CONTENTS[0])])
    assert [experience.id for experience in library.state.experiences] == [f"{prefix}-001"]


def test_a_log_of_a_newer_format_is_refused(library, path):
    newer = log_of(path).read_text().replace('"format":1', '"format":2', 1)
    assert '"format":2' in newer
    log_of(path).write_text(newer)
    with pytest.raises(InputError, match=r"line 1(.|\n)*format 2 was written by a newer version"):
        ExperienceLibrary(path)


def test_the_rendered_file_is_that_of_a_new_reader_after_every_kind_of_change(library, path):
    commit(library, outcome(3, used=["G1-001"]), [add(CONTENTS[3])])
    commit(library, outcome(4, used=["G1-001", "G1-002"]))
    mark(library, "remove", "G1-002")
    mark(library, "pin", "G1-003")
    library = by_hand(library, {"G1-001": 'A "quoted" text with é and \\ in it.'})
    assert path.read_bytes() == rendered(ExperienceLibrary(path, read_only=True).state)
    for experience in library.state.experiences:
        mark(library, "remove", experience.id)
    assert path.read_bytes() == rendered(library.state) == b"[]\n"


def test_the_processor_time_of_an_addition_grows_little_with_the_library(tmp_path):
    """The quickest of thirty additions to 2000 experiences, against 200: less than five times as much."""
    words = [a + b + c for a in "bcdfgklmn" for b in "aeiou" for c in ("rst", "nd", "lk", "mp")]
    more, libraries = 31, {}
    for size in (200, 2000):
        rng = random.Random(size)
        texts = [f"When a {' '.join(rng.sample(words, 9))}, test it first." for _ in range(size + more)]
        path = tmp_path / f"{size}.json"
        path.write_text(json.dumps([{"content": text} for text in texts[:size]]))
        libraries[size] = ExperienceLibrary(path, capacity=10**6), texts[size:]
    took = {size: [] for size in libraries}
    for number in range(more):  # in turn: what else runs on the machine adds to both
        for size, (library, texts) in libraries.items():
            began = time.process_time()
            commit(library, outcome(number), [add(texts[number])])
            took[size].append(time.process_time() - began)
    for size, (library, _) in libraries.items():
        assert len(library.state.experiences) == size + more
    seconds = {size: min(times[1:]) for size, times in took.items()}  # the first addition compares all texts
    assert seconds[2000] < 5 * seconds[200], seconds


def test_a_forbidden_experience_leaves_the_library_and_the_analyst_cannot_add_it_again(library, path):
    mark(library, "forbid", "G1-002")
    assert [entry["id"] for entry in entries(path)] == ["G1-001", "G1-003"]
    for opened in (library, ExperienceLibrary(path)):
        result = commit(opened, outcome(20), [add(CONTENTS[1])])
        assert [refusal.reason for refusal in result.refused] == ["forbidden"]
        assert [known.id for known in opened.state.forbidden] == ["G1-002"]
    library = by_hand(library, new=[CONTENTS[1]])  # only a person can add it again
    assert [experience.id for experience in library.state.live] == ["G1-001", "G1-003", "G1-004"]


@pytest.mark.parametrize("op", ["pin", "unpin", "remove", "forbid"])
def test_only_what_is_there_can_be_changed(library, op):
    with pytest.raises(InputError, match="no experience of this id"):
        mark(library, op, "G1-999")
