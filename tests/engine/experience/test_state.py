import hashlib
import json
from types import SimpleNamespace

import pytest

from engine.experience.events import (
    EVENT,
    BeginEvent,
    EditEvent,
    GateEvent,
    GroupTrial,
    ImportEvent,
    StepEvent,
)
from engine.experience.file import LibraryRenderer
from engine.experience.proposals import review_proposals
from engine.experience.state import EMPTY, diff, reduce
from engine.experience.text_checks import leaks_short_answer
from engine.records import Evidence, Experience, Operation, Problem, Uses
from tests.support.library import rendered

PROBLEM = Problem(id="p9", text="How many lattice points lie inside the given circle of radius nine?", answer="253")
PARITY = "Split by parity before counting solutions."
UNITS = "Convert every quantity to SI units first."


def add(content, **more):
    return Operation(op="add", content=content, **more)


def step(operations=(), number=0, used=(), rollouts=3, correct=1):
    return StepEvent(
        at=f"t{number}",
        run="r",
        step=number,
        problem_id="p9",
        epoch=0,
        used=list(used),
        rollouts=rollouts,
        correct=correct,
        mean=0.4,
        std=0.2,
        operations=list(operations),
    )


def judged(state, *proposals, capacity=64, **more):
    how = {"prefix": "G1", "capacity": capacity, "on_trial": False} | more
    applied, refused = review_proposals(state, proposals, PROBLEM, leaks_short_answer, **how)
    return SimpleNamespace(applied=applied, refused=refused)


@pytest.fixture
def two():
    return reduce(EMPTY, step(judged(EMPTY, add(PARITY, category="Counting"), add(UNITS)).applied))


def test_an_added_experience_records_its_origin(two):
    first, second = two.experiences
    assert first == Experience(
        id="G1-001",
        content=PARITY,
        category="counting",
        source_problem="p9",
        created_at="t0",
        evidence=[Evidence(problem_id="p9", epoch=0, mean=0.4, std=0.2)],
    )
    assert (second.id, two.next_number) == ("G1-002", 3)


def test_a_deleted_id_is_never_reused(two):
    without = reduce(two, EditEvent(at="t", operations=[Operation(op="remove", id="G1-002")]))
    assert [experience.id for experience in without.experiences] == ["G1-001"]
    assert judged(without, add(UNITS)).applied[0].id == "G1-003"


def test_uses_are_counted_for_existing_experiences_and_do_not_change_the_version(two):
    used = reduce(two, step(used=["G1-001", "G1-001", "G1-777"], rollouts=3, correct=2))
    used = reduce(used, step(used=["G1-001"], rollouts=3, correct=3))
    assert used.get("G1-001").uses == Uses(rollouts=6, correct=5)
    assert used.get("G1-002").uses == Uses()
    assert used.version == two.version


def test_the_version_depends_on_ids_contents_categories_and_pins(two):
    pinned = reduce(two, EditEvent(at="later", operations=[Operation(op="pin", id="G1-001")]))
    unpinned = reduce(pinned, EditEvent(at="later", operations=[Operation(op="unpin", id="G1-001")]))
    assert pinned.version != two.version == unpinned.version
    assert (
        reduce(EMPTY, step([add(PARITY, id="G1-002")])).version
        != reduce(EMPTY, step([add(PARITY, id="G1-001")])).version
    )
    assert len(two.version) == 12


def test_the_version_and_the_file_are_those_of_the_experiences(two):
    """In a history with branches: two states that grew from the same one."""

    def version(state):
        fields = [
            [experience.id, experience.content, experience.category, experience.status] for experience in state.live
        ]
        return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:12]

    renderer, state = LibraryRenderer(), two
    for number in range(3, 9):
        branch = reduce(state, step([add(f"Another \u201ctext\u201d {number}.", id=f"G1-{number:03d}")]))
        state = reduce(state, step([add(f"Text {number}.", id=f"G1-{number:03d}")], used=[f"G1-00{number - 1}"]))
        if number == 6:
            state = reduce(state, step([Operation(op="retire", id="G1-001"), add("Text 9.", id="G1-099")]))
        for snapshot in (branch, state, two):
            assert snapshot.version == version(snapshot)
            assert renderer.render(snapshot) == LibraryRenderer().render(snapshot) == rendered(snapshot)
    assert [experience.id for experience in state.live][:2] == ["G1-002", "G1-003"]


def test_a_file_replaces_texts_and_keeps_counts_and_used_ids(two):
    later = reduce(two, step(used=["G1-001"]))
    later = reduce(later, step([Operation(op="retire", id="G1-002"), add("Draw a figure.", id="G1-003")]))
    back = reduce(later, ImportEvent(at="t", experiences=list(two.experiences)))
    assert back.version == two.version
    assert back.get("G1-001").uses == Uses(rollouts=3, correct=1)
    assert back.next_number == 4


def test_another_text_in_a_file_forgets_what_was_measured_of_the_one_before(two):
    harms = GroupTrial(difference=-0.5, halves={"G1-001": "A", "G1-002": "A"}, rollouts={}, correct={})

    def measured(state):
        return reduce(state, step().model_copy(update={"problem_id": "p1", "trial": harms}))

    before = measured(two)
    first, second = before.experiences  # as the file has them, with their figures
    other = reduce(
        before, ImportEvent(at="t", experiences=[first.model_copy(update={"content": "Draw a figure."}), second])
    )
    assert [other.get("G1-001").trial, other.get("G1-002").trial.differences] == [None, 1]


def test_a_rejected_version_stays_rejected_until_a_gate_adopts_it(two):
    def gate(state, verdict):
        return reduce(
            state,
            GateEvent(
                at="t", version=state.version, verdict=verdict, mean=0, low=0, high=0, problems=8, of=8, own=0,
                samples=1, alpha=0.05, looks=4, dataset="d", model="m",
            ),
        )  # fmt: skip

    rejected = gate(two, "rejected")
    assert rejected.helpful == ()
    assert gate(rejected, "not_proven").is_rejected
    changed = gate(reduce(rejected, step([add("Draw.", id="G1-003")])), "not_proven")
    assert len(changed.helpful) == 3
    back = reduce(changed, ImportEvent(at="t", experiences=list(two.experiences)))
    assert back.is_rejected
    assert not gate(back, "adopted").is_rejected


def test_an_import_has_no_number_again():
    entries = [Experience(id="G1-007", content=PARITY), Experience(id="G1-003", content=UNITS)]
    assert reduce(EMPTY, ImportEvent(at="t", experiences=entries)).next_number == 8


def test_events_round_trip_through_their_lines(two):
    for event in (
        BeginEvent(at="t", run="r"),
        step([add(PARITY, id="G1-001")], used=["G1-001"]),
        EditEvent(at="t", operations=[Operation(op="pin", id="a")]),
        ImportEvent(at="t", experiences=list(two.experiences)),
    ):
        assert EVENT.validate_json(event.model_dump_json()) == event


def test_diff_reports_added_deleted_and_modified(two):
    new = [
        two.live[0].model_copy(update={"content": "Try parity."}),
        Experience(id="G1-003", content="Draw it."),
    ]
    later = reduce(two, ImportEvent(at="t", experiences=new))
    assert [(change.kind, (change.after or change.before).id) for change in diff(two, later)] == [
        ("modified", "G1-001"),
        ("deleted", "G1-002"),
        ("added", "G1-003"),
    ]
    assert diff(two, reduce(two, step(used=["G1-001"]))) == []


@pytest.mark.parametrize(
    ("proposal", "code"),
    [
        (Operation(op="add"), "empty"),
        (add(PARITY.upper()), "duplicate"),
        (add("Expect about 253 points."), "answer"),
        (add("Count lattice points lie inside the given circle."), "problem_text"),
        (add("word " * 33), "too_many_words"),
    ],
)
def test_an_invalid_proposal_is_refused_with_a_reason(two, proposal, code):
    review = judged(two, proposal)
    assert review.applied == []
    assert [refusal.reason for refusal in review.refused] == [code]
    assert review.refused[0].operation == proposal
    assert review.refused[0].message.endswith(".")


def test_a_full_library_accepts_no_experience(two):
    full = judged(two, add("Draw a figure before naming unknowns."), capacity=2)
    assert [refusal.reason for refusal in full.refused] == ["library_full"]
    assert full.applied == []


def test_each_proposal_is_checked_against_the_ones_before_it(two):
    twice = judged(two, add("Draw a figure first."), add("First draw a figure."))
    assert [refusal.reason for refusal in twice.refused] == ["duplicate"]


def test_a_long_refused_text_is_shortened_in_the_log():
    [refusal] = judged(EMPTY, add("x" * 1_000_000)).refused
    assert len(refusal.model_dump_json()) < 1000


def test_the_id_of_an_add_is_assigned_by_the_library():
    (operation,) = judged(EMPTY, add(PARITY, id="G1-777")).applied
    assert operation.id == "G1-001"
