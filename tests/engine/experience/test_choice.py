"""Which experiences of a library go into the prompt of a problem."""

import pytest

from engine.experience.choice import BySimilarity, LearnedExperiences
from engine.experience.events import ChoiceRecord
from engine.experience.similarity import ProblemKinds
from engine.experience.state import LibraryState
from engine.records import Evidence, Experience, Problem


def learned(number, text, status="active"):
    evidence = [Evidence(problem_id=f"p{number}", problem_text=text)]
    return Experience(id=f"G1-{number}", content="Check it.", evidence=evidence, status=status)


LIBRARY = [learned(n, f"Two pipes fill a tank in {n} hours.") for n in range(6)]
OWN = Problem(id="p3", text="Two pipes fill a tank in 3 hours.", answer="")


def test_a_group_on_trial_gives_its_places_to_experiences_that_it_measures():
    """An experience is not measured by the problem that it was learned from, to which it is the most similar one."""
    assert "G1-3" in [experience.id for experience in BySimilarity(2).choose(OWN, LIBRARY)]
    chosen = BySimilarity(5, on_trial=True).choose(OWN, LIBRARY)
    assert sorted(experience.id for experience in chosen) == ["G1-0", "G1-1", "G1-2", "G1-4", "G1-5"]


def test_a_problem_with_the_text_of_a_source_is_that_source():
    twin = OWN.model_copy(update={"id": "elsewhere_3"})
    assert "G1-3" not in [experience.id for experience in BySimilarity(5, on_trial=True).choose(twin, LIBRARY)]
    used = LearnedExperiences(LibraryState(tuple(LIBRARY), {}, 9), without_own=True).of(twin)
    assert [experience.id for experience in used] == ["G1-0", "G1-1", "G1-2", "G1-4", "G1-5"]
    longer = OWN.model_copy(update={"id": "longer", "text": f"{OWN.text} And a third one?"})
    assert len(LearnedExperiences(LibraryState(tuple(LIBRARY), {}, 9), without_own=True).of(longer)) == 6


def test_a_pin_counts_from_the_next_choice_on():
    choice = BySimilarity(2)
    near, far = learned(1, "Two pipes fill a tank in 1 hour."), learned(9, "Ships and tides.")
    assert [experience.id for experience in choice.choose(OWN, [near, far])] == ["G1-1"]
    pinned = far.model_copy(update={"status": "pinned"})
    assert choice.choose(OWN, [near, pinned]) == [near, pinned]


def test_what_a_person_pinned_stays_also_for_its_own_problem():
    library = [learned(3, OWN.text, "pinned") if experience.id == "G1-3" else experience for experience in LIBRARY]
    chosen = [experience.id for experience in BySimilarity(2, on_trial=True).choose(OWN, library)]
    assert "G1-3" in chosen
    assert chosen == sorted(chosen)  # in the order of the library, so that prompts with the same experiences are equal


def test_what_comes_from_problems_of_another_kind_is_left_out_of_a_choice_and_not_of_a_whole_library():
    far, other = learned(7, "Ships and tides."), learned(8, "Ships and tides.")
    near, pinned = learned(1, "Two pipes fill a tank in 1 hour."), learned(9, "Ships and tides.", "pinned")

    def ids(choice, *library):
        return [experience.id for experience in choice.choose(OWN, library)]

    assert ids(BySimilarity(2), far, near) == ["G1-1"]
    assert ids(BySimilarity(2, on_trial=True), far, near) == ["G1-1"]
    assert ids(BySimilarity(2), far, near, pinned) == ["G1-1", "G1-9"]
    assert ids(BySimilarity(2, share=0), far, near) == ["G1-7", "G1-1"]
    assert ids(BySimilarity(2, share=0), far, near, other) == ["G1-7", "G1-1"]


def test_on_trial_a_problem_of_a_kind_that_nothing_comes_from_has_no_experiences():
    """The library alone cannot tell: the experience about tanks is the most similar one to a problem about ships."""
    ships = [f"How far does ship {name} sail at full speed?" for name in "XYZ"]
    kinds = ProblemKinds([*ships, *(experience.evidence[0].problem_text for experience in LIBRARY)])
    asked = Problem(id="s0", text=ships[0], answer="")
    by_hand = Experience(id="G1-10", content="Name the unit.")
    assert BySimilarity(8, on_trial=True).choose(asked, LIBRARY)
    chosen = BySimilarity(8, on_trial=True, kinds=kinds).choose(asked, [*LIBRARY, by_hand])
    assert [experience.id for experience in chosen] == ["G1-10"]
    sails = learned(11, ships[1])
    chosen = BySimilarity(8, on_trial=True, kinds=kinds).choose(asked, [*LIBRARY, sails])
    assert [experience.id for experience in chosen] == ["G1-11"]
    # nor has the only problem of its kind
    alone = Problem(id="x", text="Is seven a prime number?", answer="")
    all_of_them = ProblemKinds([alone.text, *ships, *(experience.evidence[0].problem_text for experience in LIBRARY)])
    assert BySimilarity(8, on_trial=True, kinds=all_of_them).choose(alone, LIBRARY) == []
    # in a run without kinds all problems count alike
    none = ProblemKinds([alone.text, ships[0], OWN.text])
    assert BySimilarity(8, on_trial=True, kinds=none).choose(alone, LIBRARY) == LIBRARY
    # also for one that comes from a problem of another run
    other = learned(12, "How far does ship W sail at half speed?")
    assert BySimilarity(8, on_trial=True, kinds=kinds).choose(asked, [*LIBRARY, other]) == [other]


@pytest.mark.parametrize("without_own", [False, True])
def test_after_learning_a_library_that_fits_into_a_prompt_is_used_whole(without_own):
    far, near, other = (
        learned(7, "Ships and tides."),
        learned(1, "Two pipes fill a tank."),
        learned(8, "Dogs and cats."),
    )
    for library, expected in (([far, near], ["G1-7", "G1-1"]), ([far, near, other], ["G1-1"])):
        state = LibraryState(tuple(library), {}, 9, choice=ChoiceRecord(select="text", k=2))
        chosen = LearnedExperiences(state, without_own=without_own).of(OWN)
        assert [experience.id for experience in chosen] == expected
