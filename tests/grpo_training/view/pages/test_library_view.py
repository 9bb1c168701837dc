import time
from dataclasses import replace

import pytest

from engine.experience.events import BeginEvent, GroupTrial, StepEvent
from engine.experience.library import ExperienceLibrary
from engine.experience.log import HistoryEntry
from engine.experience.state import EMPTY
from engine.records import Experience, Operation, Problem
from grpo_training.view.pages.library_view import Piece, library_view, word_diff
from grpo_training.view.web.formats import plot_x
from tests.support.library import by_hand, commit, mark, step_of
from tests.support.table import table


def step(problem, used, correct, rollouts=4, number=0):
    return StepEvent(
        at="2026-01-01T00:00:00+00:00",
        run="r",
        step=number,
        problem_id=problem,
        epoch=0,
        used=used,
        rollouts=rollouts,
        correct=correct,
    )


def effect_in(steps):
    """The effect of A as the page of a library that holds it has it."""
    state = replace(EMPTY, texts=(Experience(id="A", content="a"),))
    return library_view(state, [HistoryEntry(1, one, EMPTY, EMPTY) for one in steps]).experiences[0].effect


def test_right_when_present_counts_the_groups_whose_prompt_had_it():
    effect = effect_in([step("p1", ["A"], 2), step("p2", ["A", "B"], 4), step("p3", ["B"], 0)])
    assert effect.when_present.value == pytest.approx(0.75)
    assert effect.when_present.low < 0.75 < effect.when_present.high
    assert effect.paired is None  # no problem was seen without it


def test_the_effect_is_paired_where_problems_were_seen_both_ways():
    steps = [step("p1", [], 0), step("p2", [], 1), step("p1", ["A"], 2), step("p2", ["A"], 4), step("p3", ["A"], 0)]
    effect = effect_in(steps)
    assert effect.paired.value == pytest.approx((0.5 - 0.0 + 1.0 - 0.25) / 2)
    assert effect.paired.clusters == 2
    assert effect_in([*steps[:1], *steps[2:3]]).paired is None  # one problem is no comparison


def test_an_experience_that_was_never_used_has_no_effect():
    effect = effect_in([step("p1", [], 3), step("p2", ["A"], 0, rollouts=0)])
    assert (effect.when_present, effect.paired) == (None, None)


@table(
    ("before", "after", "pieces"),
    [
        ("mind the gap", "mind a gap", [("same", "mind "), ("removed", "the"), ("added", "a"), ("same", " gap")]),
        ("", "new", [("added", "new")]),
        ("old", "", [("removed", "old")]),
        ("先算面积", "先求面积", [("same", "先"), ("removed", "算"), ("added", "求"), ("same", "面积")]),
        ("same", "same", [("same", "same")]),
        ("", "", []),
    ],
)
def test_texts_are_compared_word_by_word(before, after, pieces):
    assert word_diff(before, after) == [Piece(*piece) for piece in pieces]


def test_a_text_of_megabytes_is_compared_up_to_a_limit():
    start = time.process_time()
    assert len("".join(piece.text for piece in word_diff("a " * 10**6, "b " * 10**6))) == 4000
    word_diff("a " * 70, "a b " * 35)
    assert time.process_time() - start < 2


@pytest.fixture
def library(tmp_path):
    library = ExperienceLibrary(tmp_path / "generator_1_experiences.json")
    library.begin_run(BeginEvent(at="", run="run"))
    for number, texts in enumerate((["Weigh by the amounts."], [], ["Count gaps plus one."], ["The answer is 7."])):
        problem = Problem(id=f"p{number}", text="t", answer="7")
        outcome = step_of("run", number, problem, 0, ["G1-001"] if number else [], 4, number)
        commit(library, outcome, [Operation(op="add", content=text) for text in texts])
    return library


def view_of(library):
    return library_view(library.state, library.history())


def test_history_has_what_changed_and_what_was_refused_newest_first(library):
    library = by_hand(library, {"G1-002": "Count gaps, then add one."})
    view = view_of(library)
    assert [(entry.changed, len(entry.changes), len(entry.refused)) for entry in view.history] == [
        (True, 1, 0),
        (False, 0, 1),
        (True, 1, 0),
        (True, 1, 0),
    ]
    edited = view.history[0].changes[0]
    assert (edited.kind, edited.id) == ("modified", "G1-002")
    assert Piece("same", "Count gaps") in edited.pieces
    assert view.history[1].refused[0][:2] == ("add", "The answer is 7.")
    assert view.history[2].place == ("p2", 0, None)


def test_experiences_have_their_evidence_and_where_they_were_used(library):
    first = view_of(library).experiences[0]
    assert [proof[0] for proof in first.evidence] == ["p0"]
    assert [place[0] for place in first.used_at] == ["p1", "p2", "p3"]
    assert first.groups == 3
    assert first.effect.when_present.value == pytest.approx((1 + 2 + 3) / 12)


def test_pins_and_forbidden_experiences_are_told(library):
    mark(library, "pin", "G1-001")
    mark(library, "forbid", "G1-002")
    view = view_of(library)
    assert view.history[1].changes[0].remark == "active → pinned"
    assert [one.id for one in library.state.forbidden] == ["G1-002"]
    assert view.history[0].changes[0].kind == "deleted"


def test_the_versions_to_compare_are_those_of_the_log(library):
    view = view_of(library)
    assert [library.at_version(version).version for version, _ in view.versions] == [name for name, _ in view.versions]
    assert library_view(EMPTY, []).versions == []


def test_measured_effects_are_drawn_the_likeliest_to_help_first(tmp_path):
    library = ExperienceLibrary(tmp_path / "generator_1_experiences.json")
    library.begin_run(BeginEvent(at="", run="run"))
    ids = ["G1-001", "G1-002"]
    texts = [
        Operation(op="add", content=text) for text in ("Weigh by the amounts.", "Count gaps plus one.", "Ask twice.")
    ]
    for number in range(24):
        trial = GroupTrial(
            difference=0.5 if number % 2 else 0.25,
            halves={"G1-001": "A", "G1-002": "B"},
            rollouts={"A": 2, "B": 2},
            correct={"A": 2, "B": 1},
        )
        problem = Problem(id=f"p{number}", text="t", answer="7")
        outcome = step_of(
            "run", number, problem, 0, ids if number else [], 4, 3, trial=trial if number else None, on_trial=True
        )
        commit(library, outcome, [] if number else texts)
    first, last = view_of(library).effects
    assert (first.experience.id, first.state, last.experience.id) == ("G1-001", "trial", "G1-002")
    assert first.p_helps > 0.5 > last.p_helps
    assert first.measured.value == pytest.approx(-last.measured.value)
    assert first.measured.clusters == 23
    points = view_of(library).range_points
    low, middle, high = (
        float(plot_x(end, points)) for end in (first.measured.low, first.measured.value, first.measured.high)
    )
    assert low < middle < high
    assert middle == pytest.approx(100 + 100 * first.measured.value / (points / 100))
    assert float(plot_x(last.measured.low, points)) >= 0
    mark(library, "pin", "G1-001")
    assert view_of(library).effects[0].state == "pinned"
    assert library_view(EMPTY, []).effects == []
