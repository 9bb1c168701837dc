import pytest

from engine.experience.events import BeginEvent, GroupTrial
from engine.experience.library import ExperienceLibrary
from engine.experience.state import EMPTY
from engine.records import Operation, Problem
from grpo_training.view.pages.library_view import library_view
from grpo_training.view.web.formats import plot_x
from tests.support.attributes import attributes
from tests.support.library import by_hand, commit, mark, step_of


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
    return attributes(library_view(library.state, library.history()))


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
    assert (edited.kind, edited.after.id) == ("modified", "G1-002")
    assert view.history[1].refused[0][:2] == ("add", "The answer is 7.")
    assert view.history[2].place == ("p2", 0, None)


def test_experiences_have_their_evidence_and_where_they_were_used(library):
    first = view_of(library).experiences[0]
    assert [proof.problem_id for proof in first.experience.evidence] == ["p0"]
    assert [place[0] for place in first.used_at] == ["p1", "p2", "p3"]
    assert first.groups == 3
    assert (first.experience.uses.correct, first.experience.uses.rollouts) == (1 + 2 + 3, 12)


def test_pins_and_forbidden_experiences_are_told(library):
    mark(library, "pin", "G1-001")
    mark(library, "forbid", "G1-002")
    view = view_of(library)
    change = view.history[1].changes[0]
    assert (change.before.status, change.after.status) == ("active", "pinned")
    assert [experience.id for experience in library.state.forbidden] == ["G1-002"]
    assert view.history[0].changes[0].kind == "deleted"


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
    assert (first.experience.id, first.state, last.experience.id) == ("G1-001", "active", "G1-002")
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
    assert library_view(EMPTY, [])["effects"] == []
