"""Cases: solved problems in a library, and which of them stand in the prompt of a problem."""

import csv
import json
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from engine.errors import InputError
from engine.experience.choice import LearnedExperiences, lessons_of
from engine.experience.events import ChoiceRecord, GroupTrial, StepEvent
from engine.experience.library import ExperienceLibrary
from engine.experience.proposals import MAX_CASES, review_proposals
from engine.experience.similarity import SimilarCases
from engine.experience.state import EMPTY, LibraryState, reduce
from engine.experience.text_checks import MAX_CHARACTERS, leaks_short_answer
from engine.experience.trial import Trial, Trials
from engine.records import Evidence, Experience, Problem
from grpo_training.experiences.descriptions import change_of, origin
from tests.conftest import shared_file
from tests.support.library import CONTENTS, add, commit, entries, mark, outcome, step_of

NEW = Problem(id="new", text="Two pumps fill a pool in 7 hours. How long does one take?", answer="14")
KINDS = (
    "Two pumps fill a pool in {} hours.",
    "Two pumps fill a tank in some hours.",
    "A pool is a rectangle.",
    "Ships and tides meet.",
)


def case(number, text, **more):
    evidence = [Evidence(problem_id=f"p{number}", problem_text=text)]
    content = f'When a problem is like "{text}", the answer is {number}.'
    return Experience(id=f"G1-{number:03d}", content=content, kind="case", evidence=evidence, **more)


CASES = [case(number, text.format(number)) for number, text in enumerate(KINDS, 1)]


def ids(experiences):
    return [experience.id for experience in experiences]


def test_the_nearest_cases_are_chosen_and_the_nearest_one_stands_last():
    assert ids(SimilarCases(2).choose(NEW, CASES)) == ["G1-002", "G1-001"]
    assert ids(SimilarCases(4).choose(NEW, CASES))[-1] == "G1-001"
    assert "G1-004" not in ids(SimilarCases(4).choose(NEW, CASES))  # it shares no word
    assert SimilarCases(0).choose(NEW, CASES) == []
    assert SimilarCases(4).choose(NEW, lessons_of(CASES)) == []


def test_a_group_says_more_of_cases_the_more_of_them_are_of_its_kind():
    """The difference is that of all of them together: 0.5 with two of full likeness is 0.25 for one more."""
    state = LibraryState(tuple(case(number, f"Problem {number}.") for number in (1, 2)), {}, 3)
    for likeness, weight, mean in (
        ({"G1-001": 0.0, "G1-002": 0.0}, 0.0, None),
        ({"G1-001": 0.0}, 1.0, 0.5),
        ({"G1-001": 0.5}, 2.25, 0.5 / 1.5),
        ({}, 4.0, 0.25),
    ):
        trial = GroupTrial(
            difference=0.5,
            halves={"G1-001": "A", "G1-002": "A"},
            likeness=likeness,
            rollouts={"A": 2, "B": 2},
            correct={"A": 2, "B": 1},
        )
        event = StepEvent(
            at="", run="r", step=0, problem_id="new", epoch=0, used=[], rollouts=4, correct=3, trial=trial
        )
        trials = reduce(state, event).trials
        together = trials.of_kind("case")
        assert (together.weight, together.mean) == (weight, mean and pytest.approx(mean))
        assert trials.by_id == {}  # none of them is measured by itself


@pytest.mark.parametrize("own", [{"id": "p1"}, {"text": "Two pumps fill a pool in 1 hours."}])
def test_a_case_never_stands_in_a_prompt_of_its_own_problem(own):
    problem = NEW.model_copy(update=own)
    assert "G1-001" not in ids(SimilarCases(4).choose(problem, CASES))
    state = LibraryState(tuple(CASES), {}, 9, choice=ChoiceRecord(select="text", k=8, cases=4))
    assert "G1-001" not in ids(LearnedExperiences(state).of(problem))
    pinned = [CASES[0].model_copy(update={"status": "pinned"}), *CASES[1:]]
    assert "G1-001" not in ids(SimilarCases(4).choose(problem, pinned))


def test_after_learning_a_prompt_has_as_many_cases_as_while_learning():
    lesson = Experience(id="G1-009", content="Check it.")
    for record, expected in (
        (ChoiceRecord(select="text", k=8, cases=1), ["G1-009", "G1-001"]),
        (ChoiceRecord(select="text", k=8), ["G1-009"]),
        (None, ["G1-009"]),
    ):
        assert ids(LearnedExperiences(LibraryState((*CASES, lesson), {}, 10, choice=record)).of(NEW)) == expected
    known = {
        tuple(LearnedExperiences(LibraryState(tuple(CASES), {}, 9, choice=ChoiceRecord(cases=cases))).contents)
        for cases in (0, 1, 2)
    }
    assert len(known) == 3  # stored figures are those of other prompts
    assert "cases" not in ChoiceRecord(select="text").model_dump(mode="json")  # as in libraries of earlier versions


def test_a_case_that_a_person_wrote_is_found_by_its_words():
    written = Experience(id="G1-008", content="Two pumps of 7 hours each?\nAnswer: 3.5", kind="case")
    assert ids(SimilarCases(1).choose(NEW, [CASES[3], written])) == ["G1-008"]


def test_another_form_of_a_word_is_like_it():
    """No whole word of the question but "the" is in a case; only the first case has words of the same stem."""
    paid, lost = case(8, "Paying with a card is declined."), case(9, "Letters are lost on the way.")
    asked = Problem(id="new", text="Have the payments by my cards declines?", answer="1")
    assert ids(SimilarCases(1).choose(asked, [paid, lost])) == ids(SimilarCases(1).choose(asked, [lost, paid]))
    assert ids(SimilarCases(1).choose(asked, [lost, paid])) == ["G1-008"]


def test_of_public_questions_most_have_a_case_of_the_right_label_among_the_four_nearest():
    """Banking77: three cases for each of 77 labels, 400 other questions. By whole words it is 67 %."""

    def rows(name):
        return list(csv.DictReader(shared_file(f"datasets/banking77/{name}.csv").open(encoding="utf-8")))

    rng, by_label = random.Random(0), {}
    for row in rows("train"):
        by_label.setdefault(row["category"], []).append(row["text"])
    cases = [case(0, text, category=label) for label, texts in by_label.items() for text in rng.sample(texts, 3)]
    chosen, asked = SimilarCases(4), rng.sample(rows("test"), 400)
    nearest = [chosen.choose(Problem(id="new", text=row["text"], answer=""), cases) for row in asked]
    hits = [row["category"] in {solved.category for solved in near} for row, near in zip(asked, nearest, strict=True)]
    assert sum(hits) / len(hits) > 0.72


def test_problems_that_no_group_was_asked_about_become_cases_at_once(path):
    library = ExperienceLibrary(path)
    asked, twin, unasked = (Problem(id=f"p{n}", text=f"How many {n}?", answer="3") for n in (1, 1, 2))
    commit(library, step_of("r", 0, asked, 0, (), 3, 1, keeps_problem=True), [add("How many 1? 3", kind="case")])
    cases = [
        (problem, add(f"{problem.text} {problem.answer}", kind="case", category="Some label"))
        for problem in (twin, unasked)
    ]
    hidden = (NEW, add("How\x1b[2J many?", kind="case"))
    library.add_cases([*cases, hidden])
    state = library.state
    assert [(solved.id, solved.source_problem, solved.category) for solved in state.of_kind("case")][1:] == [
        ("G1-002", "p2", "some_label")
    ]
    assert ids(SimilarCases(4).choose(unasked, state.live)) == ["G1-001"]
    written = path.read_bytes(), library.log_path.read_bytes()
    library.add_cases([*cases, hidden])  # again
    assert (path.read_bytes(), library.log_path.read_bytes()) == written
    assert ExperienceLibrary(path).state == state
    assert [origin(entry) for entry in library.history()][-1] == "other problems"
    assert change_of(library.history()[-1], "G1-002") == ("import", "How many 2? 3")
    commit(library, step_of("r", 1, NEW, 0, (), 3, 1), [add("Think first.")])
    assert [experience.id for experience in library.state.live] == ["G1-001", "G1-002", "G1-003"]
    mark(library, "forbid", "G1-002")
    library.add_cases(cases)
    assert [experience.id for experience in library.state.live] == ["G1-001", "G1-003"]
    problems = [Problem(id=f"q{n}", text=f"Which {n}?", answer="3") for n in range(2 * MAX_CASES)]
    library.add_cases([(problem, add(f"{problem.text} 3", kind="case")) for problem in problems])
    assert len(library.state.of_kind("case")) == MAX_CASES
    assert library.state.has_case_of(problems[MAX_CASES - 2])
    assert not library.state.has_case_of(problems[MAX_CASES - 1])


def reviewed(state, *proposals, capacity=64, on_trial=True):
    how = {"prefix": "G1", "capacity": capacity, "on_trial": on_trial}
    applied, refused = review_proposals(state, proposals, NEW, leaks_short_answer, **how)
    return SimpleNamespace(applied=applied, refused=refused)


def test_a_case_may_hold_its_problem_and_its_answer_and_takes_no_place_of_a_lesson():
    content = f"{NEW.text}\nBoth together need half the time of one.\nAnswer: {NEW.answer}"
    review = reviewed(EMPTY, add(content, kind="case"), add(CONTENTS[0]), capacity=1)
    assert [(operation.op, operation.kind) for operation in review.applied] == [("add", "case"), ("add", "lesson")]
    full = LibraryState((Experience(id="G1-001", content=CONTENTS[0]),), {}, 2)
    assert not reviewed(full, add(content, kind="case"), capacity=1).refused
    assert [refused.reason for refused in reviewed(full, add(CONTENTS[1]), capacity=1).refused] == ["library_full"]
    [refusal] = reviewed(EMPTY, add("x" * (MAX_CHARACTERS["case"] + 1), kind="case")).refused
    assert refusal.reason == "too_many_characters"


def test_a_lesson_that_repeats_a_case_is_refused():
    state = LibraryState(tuple(CASES), {}, 9)
    assert [refusal.reason for refusal in reviewed(state, add(CASES[2].content)).refused] == ["duplicate"]


@pytest.mark.parametrize("on_trial", [True, False])
def test_a_library_of_400_cases_takes_no_more(on_trial):
    """All of them are measured together, so that none is known to be worse than another one."""
    cases = tuple(case(number, f"Problem of kind {number}.") for number in range(1, MAX_CASES + 1))
    trials = Trials(together={"case": Trial(40, 4.0, 10.0, 160.0)})
    state = LibraryState(cases, {}, MAX_CASES + 1, trials=trials)
    proposal = add("Q?\nAnswer: 7", kind="case")
    assert [refusal.reason for refusal in reviewed(state, proposal, on_trial=on_trial).refused] == ["library_full"]


@pytest.mark.parametrize(("op", "is_out_for_good"), [("forbid", True), ("retire", True), ("remove", False)])
def test_a_problem_gives_no_second_case_unless_a_person_removed_the_first(path, op, is_out_for_good):
    problem = Problem(id="p1", text="How many?", answer="3")
    twin = problem.model_copy(update={"id": "elsewhere"})
    library = ExperienceLibrary(path)
    commit(
        library, step_of("r", 0, problem, 0, (), 3, 1, keeps_problem=True), [add("How many?\nAnswer: 3", kind="case")]
    )
    assert library.state.has_case_of(problem)
    assert library.state.has_case_of(twin)
    assert not library.state.has_case_of(NEW)
    mark(library, op, "G1-001")
    assert library.state.of_kind("case") == []
    assert library.state.has_case_of(problem) is library.state.has_case_of(twin) is is_out_for_good


def written(path, **entry):
    path.write_text(json.dumps([entry]))
    return ExperienceLibrary(path)


def test_a_case_in_a_file_by_hand_has_limits_of_its_own(path):
    long = "How many?\n" + "x" * (MAX_CHARACTERS["case"] - 10)
    [experience] = written(path, content=long, kind="case").state.of_kind("case")
    assert (experience.id, experience.content) == ("G1-001", long)
    assert entries(path)[0]["kind"] == "case"
    for entry, message in (
        ({"content": f"{long}x", "kind": "case"}, "at most 1500 are allowed in a case"),
        ({"content": "How\x1b[2J many?", "kind": "case"}, "cannot be seen"),
        ({"content": " \n ", "kind": "case"}, "has no words"),
        ({"content": "word " * 33}, "at most 32 are allowed"),
        ({"content": "Two\nlines."}, "line break"),
        ({"content": "Check it.", "kind": "rule"}, "kind: Input should be 'lesson', 'case' or 'instruction'"),
    ):
        with pytest.raises(InputError, match="entry 1") as raised:
            written(path, **entry)
        assert message in str(raised.value)


def test_the_file_names_the_kind_of_cases_only(library, path):
    commit(library, outcome(9), [add("How many?\nAnswer: 3", kind="case")])
    assert [entry.get("kind") for entry in entries(path)] == [None, None, None, "case"]
    assert list(entries(path)[3])[:5] == list(entries(path)[0])[:5]
    assert ExperienceLibrary(path).state == library.state


def test_what_all_of_a_kind_are_worth_is_where_the_belief_in_a_single_one_begins():
    """Sixty groups, each with a lesson and a case of its own in A: lessons cost 10 points each, cases bring 10."""
    lessons = [Experience(id=f"G1-{number:03d}", content=f"Lesson {number}.") for number in range(1, 62)]
    solved = [case(number, f"Problem {number}.") for number in range(101, 162)]
    written = Experience(id="G1-900", content="Think first.", kind="instruction")
    state = LibraryState((*lessons, *solved, written), {}, 901)

    def measured(state, step, names, difference):
        halves = dict.fromkeys(names, "A")
        shares = {"A": 2, "B": 2}
        trial = GroupTrial(difference=difference, halves=halves, likeness={}, rollouts=shares, correct=shares)
        event = StepEvent(
            at="", run="r", step=step, problem_id="new", epoch=0, used=[], rollouts=4, correct=2, trial=trial
        )
        return reduce(state, event)

    for step, (lesson, solved_case) in enumerate(zip(lessons[:60], solved[:60], strict=True)):
        state = measured(state, 2 * step, [lesson.id, written.id], -0.1)
        state = measured(state, 2 * step + 1, [solved_case.id], 0.1)
    together = state.trials.together
    assert set(together) == {"lesson", "case"}
    assert [round(together[kind].mean, 6) for kind in ("lesson", "case")] == [-0.1, 0.1]
    assert state.trials.belief(lessons[60]).effect < 0 < state.trials.belief(solved[60]).effect
    assert {entry.kind for entry in state.tested} == {"case"}  # the instruction was measured by itself, at -10 points
    assert {entry.kind for entry in LibraryState(state.live, {}, 901).tested} == {"lesson", "case", "instruction"}


@pytest.mark.parametrize(
    ("worth", "cases", "used"),
    [(0.12, 4, ["sure", "likely", "pinned", "case"]), (0.12, 0, ["sure", "likely", "perhaps", "pinned", "case"]),
     (0.06, 4, ["sure", "likely", "perhaps", "pinned", "case"])],
    ids=["cases are known to help", "no prompt has cases", "cases may help"],
)  # fmt: skip
def test_beside_cases_that_are_known_to_help_a_lesson_has_to_help_more_probably_than_not(worth, cases, used):
    trials = Trials(
        {
            "sure": Trial(40, 12.0, 6.0, 40.0),
            "likely": Trial(8, 1.2, 2.0, 8.0),
            "perhaps": Trial(20, 0.8, 4.0, 20.0),
            "harms": Trial(40, -12.0, 6.0, 40.0),
        },
        variance=0.2,
        together={"case": Trial(50, worth * 200, 10.0, 200.0)},
    )
    texts = [Experience(id=name, content="Count.") for name in trials.by_id]
    pinned = Experience(id="pinned", content="Add.", status="pinned")
    solved = Experience(id="case", content="Q?", kind="case")
    state = LibraryState((*texts, pinned, solved), {}, 9, trials=trials, choice=ChoiceRecord(cases=cases))
    assert ids(state.tested) == used
    without_cases = replace(state, live=state.live[:-1])
    assert ids(without_cases.tested) == ["sure", "likely", "perhaps", "pinned"]
    beliefs = [trials.belief(lesson) for lesson in texts]
    assert [belief.helps for belief in beliefs] == [True, True, True, False]
    assert beliefs[2].p_helps < 0.5 < beliefs[1].p_helps < 0.8 < beliefs[0].p_helps
    assert trials.belief_in("case").p_helps > 0.95
    assert (trials.belief_in("case").p_helps >= 0.999) is trials.cases_help() is (worth == 0.12)
