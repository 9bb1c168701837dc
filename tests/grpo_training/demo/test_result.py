"""The report of the demo: verdicts in words, experiences by family."""

import pytest

from engine.experience.state import LibraryState
from engine.records import Experience, Problem, Uses
from grpo_training.demo.result import arm_json, family_rows, gate_lines, most_used, verdict
from grpo_training.evaluate.arms import Arm, ProblemResult
from grpo_training.evaluate.libraries import BASE, BASE_AGAIN, LIBRARIES, library_arm


def arm(name, verdicts):
    """An arm with the verdicts of each problem."""
    return Arm(name, [ProblemResult(problem_id, "", own) for problem_id, own in verdicts.items()])


def numbered(*verdicts):
    return {f"p{number}": own for number, own in enumerate(verdicts)}


def test_figures_compare_common_problems():
    base = arm(BASE, {"p1": (True, False), "p2": (False, False), "p3": (False, False)})
    other = arm(LIBRARIES, {"p1": (True, True), "p2": (True, False), "p3": (True, None), "p4": (True, True)})
    first, second = arm_json(base, base), arm_json(other, base)
    assert first["difference_to_base"] is None
    assert first["accuracy"]["value"] == pytest.approx(1 / 6)
    assert second["accuracy"]["value"] == pytest.approx(5 / 6)
    assert second["difference_to_base"]["value"] == pytest.approx(0.5)
    assert second["difference_to_base"]["clusters"] == 2
    assert second["left_out"] == ["p3"]
    assert second["verdicts"]["p2"] == [1, 0]


def test_no_complete_problem_has_no_figures():
    arms = [arm(BASE, {"p1": (None,)}), arm(BASE_AGAIN, {}), arm(LIBRARIES, {})]
    assert arm_json(arms[0], arms[0])["accuracy"] is None
    assert "Too few problems" in verdict(arms)


@pytest.mark.parametrize(
    ("libraries", "words"),
    [
        ([(True, True)] * 30 + [(True, False)] * 10, "The libraries help: +37.5 points (95 % interval"),
        ([(False, False)] * 38 + [(True, False)] * 2, "The libraries do harm: -47.5 points (95 % interval"),
        ([(True, False)] * 40, "The gain may be due to chance: the libraries make +0.0 points (95 % interval"),
    ],
)
def test_verdict_in_words(libraries, words):
    base = [(True, False), (False, True)] * 20
    again = base[:20] + [(True, True), (False, False)] * 10
    arms = [arm(BASE, numbered(*base)), arm(BASE_AGAIN, numbered(*again)), arm(LIBRARIES, numbered(*libraries))]
    assert verdict(arms).startswith(words)
    assert "the base against itself: +0.0 points" in verdict(arms)


def test_families_and_most_used_experiences():
    def library(*experiences):
        made = [
            Experience(id=id_, content="Look.", source_problem=source, uses=Uses(rollouts=uses, correct=1))
            for id_, source, uses in experiences
        ]
        return LibraryState(tuple(made), {}, 9)

    def problem(id_, family):
        return Problem(id=id_, text=id_, answer="1", meta={"family": family})

    trained = [problem("t1", "ages"), problem("t2", "ages"), problem("t3", "clocks")]
    tested = [problem("h1", "clocks"), problem("h2", "clocks"), problem("h3", "mixtures")]
    libraries = {
        "generator_1": library(("G1-001", "t1", 4), ("G1-002", "t2", 9)),
        "critic": library(("C-001", "by hand", 7)),
    }
    arms = [
        arm(BASE, {"h1": (True, False), "h2": (False, False), "h3": (True, True)}),
        arm(LIBRARIES, {"h1": (True,), "h2": (None,), "h3": (True,)}),
    ]
    ages, clocks = family_rows(trained, tested, libraries, arms)
    assert (ages.family, ages.met, ages.lessons) == ("ages", 2, {"generator_1": 2, "critic": 0})
    assert (ages.base, ages.libraries) == (None, None)
    assert (clocks.met, clocks.lessons) == (1, {"generator_1": 0, "critic": 0})
    assert (clocks.base, clocks.libraries) == (0.25, 1.0)
    assert [one.id for one in most_used(libraries)] == ["G1-002", "C-001", "G1-001"]


def test_the_gate_judges_each_library_by_the_answers_of_the_evaluation():
    base = arm(BASE, numbered(*[(True, False)] * 40))
    helps = arm(library_arm("generator_1"), numbered(*[(True, True)] * 40))
    same = arm(library_arm("generator_2"), numbered(*[(False, True)] * 39, (None, None)))
    first, second = gate_lines([base, base, helps, same, arm(LIBRARIES, numbered(*[(True, True)] * 40))])
    assert first.startswith("Gate, library of generator_1: adopted: the library helps, +50.0 points (interval +")
    assert first.endswith("after 10 of 40 problems.")
    assert second.startswith("Gate, library of generator_2: not proven, +0.0 points (interval -")
    assert second.endswith("after 39 of 39 problems.")
