import json
import random
import time

from engine.records import CausalEdge, PlanStep, Scaffold
from engine.scaffold.execution import compile_scaffold, execute
from engine.scaffold.merge import merge_scaffolds
from engine.scaffold.parsing import scaffold_from_object
from engine.scaffold.structure import check_structure, plan_agreement


def scaffold(*rules, knowns=None, target=None, **fields):
    edges = [CausalEdge(cause=causes.split(), effect=effect, rule=rule) for causes, effect, rule in rules]
    return Scaffold(target_variable=target or edges[-1].effect, knowns=knowns or {}, causal_graph=edges, **fields)


BASE = scaffold(("a b", "c", "c = a + b"), ("c", "y", "y = 2*c + 1"), knowns={"a": 3, "b": 4})


def test_merging_one_scaffold_returns_its_graph():
    merge = merge_scaffolds([BASE])
    assert merge.causal_graph == BASE.causal_graph
    assert merge.final_answer == "15"


def test_merging_no_scaffolds_gives_none():
    assert merge_scaffolds([]) == []


def test_the_order_of_terms_does_not_matter():
    rules = ("a b", "sum", "sum = a + b"), ("sum", "area", "2*sum + 1")
    given = scaffold(*rules, knowns={"a": 3, "b": 4})
    other = scaffold(("sum", "area", "1 + sum*2"), ("b a", "sum", "b + a"), knowns={"a": 3, "b": "4"}, target="area")
    merge = merge_scaffolds([given, given, other])
    assert merge.final_answer == "15"
    assert merge.knowns == {"a": 3, "b": 4}
    assert [edge.effect for edge in merge.causal_graph] == ["sum", "area"]


def test_rules_that_are_written_alike_are_no_contradiction():
    first = scaffold(("a b", "c", "c = count (a, b)"), ("c", "y", "2*c"), knowns={"a": 3, "b": 4})
    second = scaffold(("a b", "c", "count(a, b)"), ("c", "y", "c + c"), knowns={"a": 3, "b": 4})
    assert merge_scaffolds([first, second]) == ["y: 2*c | c + c"]  # c has no value


def test_single_letters_that_differ_in_case_are_different_variables():
    circles = scaffold(("R r", "y", "R - r"), knowns={"R": 5, "r": 2})
    assert merge_scaffolds([circles, circles]).final_answer == "3"


def test_rules_are_equivalent_if_their_values_agree_also_after_a_change():
    doubled = scaffold(("x", "y", "2*x"), knowns={"x": 2})
    added = scaffold(("x", "y", "x + x"), knowns={"x": 2})
    chance = scaffold(("x", "y", "x + 2"), knowns={"x": 2})
    assert merge_scaffolds([doubled, added]).final_answer == "4"
    assert merge_scaffolds([doubled, chance]) == ["y: 2*x | x + 2"]


def test_a_rule_of_only_some_scaffolds_is_used_if_the_target_needs_it():
    direct = scaffold(("a b", "y", "2*(a + b) + 1"), knowns={"a": 3, "b": 4})
    merge = merge_scaffolds([direct, BASE])
    assert merge.final_answer == "15"
    assert [edge.effect for edge in merge.causal_graph] == ["y"]  # the direct rule needs no c


def test_a_rule_that_can_be_parsed_is_preferred_to_prose():
    prose = scaffold(("a b", "c", "Add both"), ("c", "y", "y = 2*c + 1"), knowns={"a": 3, "b": 4})
    assert merge_scaffolds([prose, BASE]).final_answer == "15"
    other = scaffold(("a b", "c", "Take the sum"), ("c", "y", "y = 2*c + 1"), knowns={"a": 3, "b": 4})
    assert merge_scaffolds([prose, other]) == ["c: Add both | Take the sum"]
    alone = merge_scaffolds([prose, prose])
    assert alone == []  # it does not execute


def test_contradictions_are_listed():
    rule = scaffold(("a b", "c", "a * b"), ("c", "y", "2*c + 1"), knowns={"a": 3, "b": 4})
    known = BASE.model_copy(update={"knowns": {"a": 3, "b": 5}})
    merge = merge_scaffolds([BASE, rule, known])
    assert merge == ["b: 4 | 5", "c: c = a + b | a * b"]


def test_a_contradiction_that_the_target_does_not_depend_on_is_ignored():
    first = scaffold(("a", "side", "a + 1"), ("a", "y", "2*a"), knowns={"a": 3})
    second = scaffold(("a", "side", "a + 2"), ("a", "y", "2*a"), knowns={"a": 3})
    merge = merge_scaffolds([first, second])
    assert merge.final_answer == "6"
    assert [edge.effect for edge in merge.causal_graph] == ["y"]


def test_different_targets_are_a_conflict():
    merge = merge_scaffolds([BASE, scaffold(("a b", "z", "a + b"), knowns={"a": 3, "b": 4})])
    assert merge == ["target_variable: y | z"]


def test_a_cycle_between_the_rules_of_two_scaffolds_is_a_conflict():
    first = scaffold(("q", "p", "q + 1"), ("p", "y", "p"), knowns={"q": 1})
    second = scaffold(("p", "q", "p - 1"), ("p", "y", "p"), knowns={"p": 2})
    merge = merge_scaffolds([first, second])
    assert [conflict[:3] in ("p: ", "q: ") for conflict in merge] == [True]


def test_a_common_stated_answer_is_compared_with_the_executed_one():
    assert merge_scaffolds([BASE, BASE], ["15", " 15"]).final_answer == "15"
    assert merge_scaffolds([BASE, BASE], ["16", "17"]).final_answer == "15"
    assert merge_scaffolds([BASE, BASE], ["16", "16", None]) == ["y: 15 | 16"]


def test_the_merged_plan_follows_its_graph():
    described = BASE.model_copy(update={
        "computation_plan": [PlanStep(id="s1", target="c", inputs=["a", "b"], description="add them")],
        "constraints_and_premises": ["a > 0"], "problem_model": "sums",
    })  # fmt: skip
    merged = merge_scaffolds([BASE, described])
    assert plan_agreement(merged) == 1.0
    assert merged.computation_plan[0] == PlanStep(id="step1", target="c", inputs=["a", "b"], description="add them")
    assert merged.computation_plan[1].inputs == ["step1"]
    assert (merged.constraints_and_premises, merged.problem_model) == (["a > 0"], "sums")


def test_knowns_with_different_units_are_a_conflict():
    metres = scaffold(("v t", "s", "v*t"), knowns={"v": "5 m/s", "t": "2 s"})
    other = scaffold(("v t", "s", "v*t"), knowns={"v": "5 km/h", "t": "2 s"})
    assert merge_scaffolds([metres, other]) == ["v: 5 m/s | 5 km/h"]


def test_the_order_of_the_scaffolds_does_not_change_the_answer():
    rng = random.Random(3)
    scaffolds = [
        BASE,
        scaffold(("a b", "y", "1 + 2*(b + a)"), knowns={"a": 3, "b": 4}),
        scaffold(("a b", "d", "a - b"), ("d b", "y", "2*(d + 2*b) + 1"), knowns={"a": 3, "b": 4}),
    ]
    for _ in range(6):
        rng.shuffle(scaffolds)
        assert merge_scaffolds(scaffolds).final_answer == "15"


def test_too_many_rules_are_not_merged():
    rules = [(f"v{i}", f"v{i + 1}", f"v{i} + 1") for i in range(240)]
    long = scaffold(*rules, knowns={"v0": 1})
    start = time.process_time()
    assert merge_scaffolds([long, long]).final_answer == "241"
    assert merge_scaffolds([long] * 3) == []
    assert time.process_time() - start < 15


def test_merging_recorded_groups(recorded):
    merged, conflicting = 0, 0
    for name in ("generator_1_rollouts", "generator_2_rollouts"):
        for line in recorded[name].read_text(encoding="utf-8").splitlines():
            rollouts = json.loads(line)["rollouts"]
            scaffolds = [parsed for r in rollouts if (parsed := scaffold_from_object(r["scaffold"]).scaffold)]
            merge = merge_scaffolds(scaffolds)
            conflicting += isinstance(merge, list) and bool(merge)
            if isinstance(merge, Scaffold):
                merged += 1
                assert execute(merge).answer == merge.final_answer
                structure = check_structure(compile_scaffold(merge))
                assert (structure["acyclic"], structure["target_covered"], structure["target_reachable"]) == (
                    True,
                    True,
                    True,
                )
                assert (structure["knowns_used"], structure["rules_parse"]) == (1.0, 1.0)
    assert (merged, conflicting) == (4, 34)
