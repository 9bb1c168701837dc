"""What a policy could write to be paid for structure, and what it earns: the table of docs/reference/rewards.md."""

import functools
import re
from pathlib import Path

import pytest

from engine.records import Completion, Outcome
from engine.reward_evaluator import Baseline, RewardEvaluator, fusion_baseline, fusion_reward, task_total
from engine.statistics.groups import combine_rewards
from engine.tasks.registry import task_named
from tests.support.constructions import CASES, CONSTRUCTIONS, HIGHEST_FAKED, reply

DOCS = Path(__file__).parents[3] / "docs/reference/rewards.md"
CRITIC_WEIGHTS = dict.fromkeys(("r_ans", "r_logic", "r_graph", "r_fusion"), 0.25)
BARE = "The final answer is {}."
HIGHEST_WRONG = 0.35  # the bound that a wrong construction must stay below


@functools.cache
def scored(of, text):
    task = task_named(of.problem.task or "math")
    return RewardEvaluator().score(task, of.problem, task.parse(Completion(text=text), of.problem))


def total(of, text):
    return scored(of, text).rewards.r_total


def parts_alone(of, text):
    """The total as it was before structure was compared with the problem: the plain means of the measured parts."""
    found = scored(of, text)
    if "graph" not in found.detail:
        return 0.5 * found.rewards.r_ans
    graph, logic = dict(found.detail["graph"]), dict(found.detail["logic"])
    del graph["rules_work"]
    if not found.candidate.content.knowns:
        del graph["knowns_used"]
    if not graph["executes"]:
        del logic["interventions"]
    if not graph["executes"] or found.candidate.stated_answer is None:
        del logic["answers_agree"]
    if of.unit and not any(of.unit in str(value) for value in found.candidate.content.knowns.values()):
        del logic["dimensions"]  # it was absent where no known has a unit
    measured = [value for value in logic.values() if value is not None]
    return 0.5 * found.rewards.r_ans + 0.25 * sum(graph.values()) / len(graph) + 0.25 * sum(measured) / len(measured)


def test_each_problem_has_an_honest_scaffold_with_the_highest_reward():
    for of in CASES:
        found = scored(of, of.honest())
        assert found.is_correct
        assert found.answer_source == "executed"
        assert found.rewards.r_total == 1.0
        bare = scored(of, BARE.format(of.problem.answer))
        assert bare.is_correct
        assert bare.rewards.r_total == 0.5


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_a_wrong_construction_earns_little_and_less_than_any_right_answer(name):
    for of in CASES:
        text = CONSTRUCTIONS[name](of, of.wrong)
        found = scored(of, text)
        assert not found.is_correct
        assert found.rewards.r_total <= HIGHEST_WRONG
        assert found.rewards.r_total < total(of, BARE.format(of.problem.answer))
        assert found.rewards.r_total <= 0.25 * 0.4 * 2 + 1e-12  # by docs/reference/rewards.md


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_made_up_structure_earns_less_than_an_honest_scaffold(name):
    for of in CASES:
        text = CONSTRUCTIONS[name](of, of.right)
        assert total(of, text) <= HIGHEST_FAKED < total(of, of.honest())


FAULTS = {
    "no final_answer": {"answer": ""},
    "another final_answer": {"answer": "7"},
    "no plan": {"plan": []},
    "a rule in words": {"first": "what follows from the text"},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_honest_scaffold_with_a_fault_still_earns_more_than_made_up_structure(fault):
    for of in CASES:
        if of.unit and "answer" in FAULTS[fault]:
            continue  # the unit of a physics answer is only in final_answer
        text = faulty(of, **FAULTS[fault])
        best = max(total(of, make(of, of.right)) for name, make in CONSTRUCTIONS.items() if "in words" not in name)
        assert scored(of, text).is_correct
        assert best < total(of, text) < total(of, of.honest())


def faulty(of, answer=None, plan=None, first=None):
    rules, causes = list(of.rules), None
    if first is not None:
        rules[0], causes = f"{rules[0].split(' = ')[0]} = {first}", {0: list(of.knowns)}
    return reply(of, of.knowns, rules, of.problem.answer if answer is None else answer, plan=plan, causes=causes)


def test_leaving_something_out_never_pays():
    of = CASES[0]
    whole = total(of, of.honest())
    without = {
        "final_answer": reply(of, of.knowns, list(of.rules), ""),
        "plan": reply(of, of.knowns, list(of.rules), "195", plan=[]),
        "knowns": reply(of, {}, ["all = 12 * 17", "left = all - 9"], "195"),
        "a known": reply(of, {"crates": 12, "each": 17}, ["all = crates * each", "left = all - 9"], "195"),
        "a rule": reply(of, of.knowns, ["left = all - gifts"], "195"),
        "formulas": reply(of, of.knowns, ["all = multiply the two", "left = subtract the gifts"], "195"),
        "everything": BARE.format(195),
    }
    for name, text in without.items():
        assert scored(of, text).is_correct, name
        assert total(of, text) < whole or name == "a known", name
    contradicting = reply(of, of.knowns, list(of.rules), "196")
    assert total(of, without["final_answer"]) <= total(of, contradicting) < whole


def test_units_left_out_cost_as_much_as_wrong_ones():
    of = next(of for of in CASES if of.unit)
    bare = {name: written.split()[0] for name, written in of.knowns.items()}
    text = reply(of, bare, list(of.rules), of.problem.answer)
    assert scored(of, text).detail["logic"]["dimensions"] == 0.0
    assert scored(of, of.honest()).detail["logic"]["dimensions"] == 1.0


def fused(of, text, inputs):
    """The critic's total for a fusion of inputs."""
    task = task_named(of.problem.task or "math")
    own, *totals = [task_total(task, components(of, other)) for other in (text, *inputs)]
    baseline = fusion_baseline([scored(of, other).answer for other in inputs], totals)
    return combine_rewards(components(of, text) | {"r_fusion": fusion_reward(own, baseline)}, CRITIC_WEIGHTS)


def components(of, text):
    rewards = scored(of, text).rewards
    return {"r_ans": rewards.r_ans, "r_logic": rewards.r_logic, "r_graph": rewards.r_graph}


def test_the_totals_of_fusions_are_those_of_the_evaluator():
    of = CASES[0]
    task = task_named("math")
    candidate = task.parse(Completion(text=of.honest()), of.problem)
    baseline = Baseline(best=0.5, majority=0.5)  # of one input, the bare answer
    found = RewardEvaluator(CRITIC_WEIGHTS).score(task, of.problem, candidate, baseline=baseline)
    assert found.rewards.r_total == fused(of, of.honest(), [BARE.format(195)]) == (1 + 1 + 1 + 0.75) / 4


@pytest.mark.parametrize("of", CASES, ids=lambda of: of.problem.id)
def test_the_best_paid_fusion_is_the_best_fusion(of):
    one, other = of.knowns, list(of.rules)
    wrong_rule = [*other[:-1], f"{other[-1].split(' = ')[0]} = 3 * {other[-2].split(' = ')[0]}"]
    inputs = [of.honest(), reply(of, one, wrong_rule, of.stated(of.wrong)), BARE.format(of.stated(of.wrong))]
    for members in (inputs, inputs[1:]):  # with a right input, and without one
        wrong = [fused(of, make(of, of.wrong), members) for make in CONSTRUCTIONS.values()]
        wrong.append(fused(of, inputs[1], members))
        faked = [fused(of, make(of, of.right), members) for make in CONSTRUCTIONS.values()]
        bare = fused(of, BARE.format(of.problem.answer), members)
        flawed = fused(of, reply(of, one, other, of.problem.answer, plan=[]), members)
        honest = fused(of, of.honest(), members)
        assert max(wrong) + 0.08 < bare
        assert max(faked) < flawed < honest


def test_an_opinion_does_not_lift_a_wrong_answer_above_a_right_one():
    of = CASES[0]
    task = task_named("math")
    evaluator = RewardEvaluator(CRITIC_WEIGHTS)
    wrong = task.parse(Completion(text=reply(of, of.knowns, ["left = crates * each"], "204")), of.problem)
    right = task.parse(Completion(text=BARE.format(195)), of.problem)
    praised = evaluator.score(task, of.problem, wrong, opinion=1.0).rewards
    assert praised.r_logic == pytest.approx(0.4 * (0.7 * 1 + 0.3 * 1))
    assert praised.r_total < evaluator.score(task, of.problem, right).rewards.r_total
    faked = task.parse(Completion(text=CONSTRUCTIONS["the answer as a known, `t = a`"](of, 195)), of.problem)
    assert evaluator.score(task, of.problem, faked, opinion=1.0).rewards.r_logic == 0.0


def test_constructions_are_scored_and_not_refused():
    for of in CASES:
        for make in CONSTRUCTIONS.values():
            found = scored(of, make(of, of.right))
            assert found.outcome in (Outcome.OK, Outcome.MODEL_FAULT)
            assert found.detail["structure"] == 6


def rows():
    """The rows of the table: the highest totals over the problems, wrong and right, by the parts alone and now."""
    made = {"an honest scaffold": lambda of, number: of.honest(), "only the answer": lambda of, number:
            BARE.format(of.stated(number)), **CONSTRUCTIONS}  # fmt: skip
    for name, make in made.items():
        cells = []
        for number in ("wrong", "right"):
            if name == "an honest scaffold" and number == "wrong":
                cells += ["", ""]
                continue
            texts = [(of, make(of, getattr(of, number))) for of in CASES]
            texts = [(of, text) for of, text in texts if scored(of, text).is_correct == (number == "right")]
            cells += [f"{max((measure(*item) for item in texts), default=0):.2f}" if texts else ""
                      for measure in (parts_alone, total)]  # fmt: skip
        yield f"| {name} | {' | '.join(cells)} |"


def test_the_table_of_the_documentation_has_these_figures():
    table = re.findall(
        r"^\| (?!what|---).*\|$",
        DOCS.read_text().partition("## What a policy could try")[2].partition("\n## ")[0],
        re.MULTILINE,
    )
    assert table == list(rows())


if __name__ == "__main__":  # python -m tests.engine.tasks.test_gaming
    print("\n".join(rows()))
