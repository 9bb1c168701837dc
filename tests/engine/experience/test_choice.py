"""Which experiences of a library go into the prompt of a problem."""

from engine.experience.choice import BySimilarity
from engine.records import Evidence, Experience, Problem


def learned(number, text, status="active"):
    evidence = [Evidence(problem_id=f"p{number}", problem_text=text)]
    return Experience(id=f"G1-{number}", content="Check it.", evidence=evidence, status=status)


LIBRARY = [learned(n, f"Two pipes fill a tank in {n} hours.") for n in range(6)]
OWN = Problem(id="p3", text="Two pipes fill a tank in 3 hours.", answer="")


def test_a_group_on_trial_gives_its_places_to_experiences_that_it_measures():
    """An experience is not measured by the problem that it was learned from, to which it is the most similar one."""
    assert "G1-3" in [one.id for one in BySimilarity(2).choose(OWN, 0, LIBRARY)]
    chosen = BySimilarity(5, only_measurable=True).choose(OWN, 0, LIBRARY)
    assert sorted(one.id for one in chosen) == ["G1-0", "G1-1", "G1-2", "G1-4", "G1-5"]


def test_what_a_person_pinned_stays_also_for_its_own_problem():
    library = [learned(3, OWN.text, "pinned") if one.id == "G1-3" else one for one in LIBRARY]
    chosen = [one.id for one in BySimilarity(2, only_measurable=True).choose(OWN, 0, library)]
    assert "G1-3" in chosen
    assert chosen == sorted(chosen)  # in the order of the library, so that prompts with the same experiences are equal
