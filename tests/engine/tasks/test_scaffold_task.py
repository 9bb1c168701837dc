import json
import time

import pytest

from engine.records import Completion, Fusion, Outcome, Problem, RolloutGroup
from engine.reward_evaluator import Baseline, RewardEvaluator
from engine.sandbox.worker import KillablePool, WorkResult
from engine.storage.rollout_store import read
from engine.tasks.registry import task_named
from tests.support.table import table

MATH, PHYSICS = task_named("math"), task_named("physics")
CRITIC_WEIGHTS = dict.fromkeys(("r_ans", "r_logic", "r_graph", "r_fusion"), 0.25)
APPLES = Problem(id="p", text="Three crates hold four apples each. How many apples?", answer="12")


def scaffold(rule="apples = crates * each", **changes):
    return {
        "target_variable": "apples",
        "knowns": {"crates": 3, "each": 4},
        "causal_graph": [{"cause": ["crates", "each"], "effect": "apples", "rule": rule}],
        "computation_plan": [{"id": "s1", "target": "apples", "inputs": ["crates", "each"], "description": "x"}],
        "final_answer": "12",
        **changes,
    }


def score(reply, problem=APPLES, task=MATH, **more):
    text = reply if isinstance(reply, str) else json.dumps(reply)
    return RewardEvaluator(**more).score(task, problem, task.parse(Completion(text=text), problem))


# Worked out by hand from docs/reference/rewards.md:  (reply, r_ans, r_logic, r_graph)
CASES = {
    "perfect": (scaffold(), 1, 1, 1),
    # 5 of 7 graph parts (the rule is words, so it is not read and does not execute); of the logic, only the plan agrees
    "prose": (scaffold("apples = count all of them"), 1, 1 / 4, 5 / 7),
    # listed {crates, each}, used {crates}: 1/2; do(each) should move the target and does not: 1/2
    "hidden constant": (scaffold("apples = crates * 4"), 1, (1 + 0.5 + 1 + 0.5) / 4, 1),
    "graph against text": (scaffold(final_answer="13"), 1, (1 + 1 + 0 + 1) / 4, 1),
    "wrong rule": (scaffold("apples = crates + each", final_answer="7"), 0, 0.4, 0.4),
    # the text has neither 5 nor 7; the six other graph parts hold
    "foreign numbers": (scaffold("apples = crates + each", knowns={"crates": 5, "each": 7}), 1, 1, 6 / 7),
    "a foreign number": (scaffold("apples = crates * each / 2", knowns={"crates": 3, "each": 8}), 1, 1, 6.5 / 7),
    "no final answer": (scaffold(final_answer=""), 1, 3 / 4, 1),
    "no plan": (scaffold(computation_plan=[]), 1, (0 + 1 + 1 + 1) / 4, 1),
    # of the graph, the target is covered and the rules parse; of the logic, the rules use their causes
    "cycle": (
        scaffold(
            knowns={},
            causal_graph=[
                {"cause": ["b"], "effect": "apples", "rule": "apples = b"},
                {"cause": ["apples"], "effect": "b", "rule": "b = apples"},
            ],
            computation_plan=[],
        ),
        1,
        1 / 4,
        2 / 7,
    ),
    "no scaffold, right answer": ("The final answer is 12.", 1, 0, 0),
    "nothing": ("I do not know.", 0, 0, 0),
}


@table("name", CASES)
def test_components_as_worked_out_by_hand(name):
    reply, r_ans, r_logic, r_graph = CASES[name]
    rewards = score(reply).rewards
    assert rewards.r_ans == r_ans
    assert rewards.r_logic == pytest.approx(r_logic)
    assert rewards.r_graph == pytest.approx(r_graph)
    assert rewards.r_total == pytest.approx(0.5 * r_ans + 0.25 * r_logic + 0.25 * r_graph)


def test_a_wrong_answer_in_perfect_form_earns_less_than_a_right_one_without_any():
    wrong = score(scaffold("apples = crates + each", final_answer="7")).rewards
    bare = score("The final answer is 12.").rewards
    assert (wrong.r_total, bare.r_total) == (pytest.approx(0.25 * 0.4 + 0.25 * 0.4), 0.5)
    # also where all components have one weight, as for the critic, and a judge gives full marks
    praised = RewardEvaluator(CRITIC_WEIGHTS).score(
        MATH, APPLES, MATH.parse(Completion(text=json.dumps(scaffold("apples = crates + each"))), APPLES), opinion=1.0
    )
    assert praised.rewards.r_total < RewardEvaluator(CRITIC_WEIGHTS).score(
        MATH, APPLES, MATH.parse(Completion(text="The final answer is 12."), APPLES)
    ).rewards.r_total  # fmt: skip


def test_units_left_out_cost_as_much_as_wrong_ones():
    bare = score(fall(knowns={"g": 9.8, "h": 10}), FALL, PHYSICS)
    assert bare.detail["logic"]["dimensions"] == 0.0


def test_no_component_is_a_constant():
    scored = [score(reply).rewards for reply, *_ in CASES.values()]
    for name in ("r_ans", "r_logic", "r_graph"):
        assert len({getattr(rewards, name) for rewards in scored}) >= 2


def test_the_executed_value_is_the_answer_and_the_stated_one_is_kept():
    scored = score(scaffold(final_answer="13"))
    assert (scored.answer, scored.answer_source, scored.candidate.stated_answer) == ("12", "executed", "13")
    scored = score(scaffold("all of them"))
    assert (scored.answer, scored.answer_source) == ("12", "stated")


def test_a_fusion_is_measured_against_its_inputs():
    evaluator = RewardEvaluator(CRITIC_WEIGHTS)
    candidate = MATH.parse(Completion(text=json.dumps(scaffold())), APPLES)
    copy = evaluator.score(MATH, APPLES, candidate, baseline=Baseline(1.0, 1.0)).rewards
    gain = evaluator.score(MATH, APPLES, candidate, baseline=Baseline(0.5, 0.3)).rewards
    assert (copy.r_fusion, gain.r_fusion) == (0.5, pytest.approx(0.8))
    assert gain.r_total == pytest.approx((1 + 1 + 1 + 0.8) / 4)
    assert evaluator.score(MATH, APPLES, candidate).rewards.r_total == 1.0  # no inputs: absent, not 0


def test_a_judges_opinion_joins_and_an_absent_one_does_not():
    candidate = MATH.parse(Completion(text=json.dumps(scaffold(computation_plan=[]))), APPLES)
    evaluator = RewardEvaluator()
    assert evaluator.score(MATH, APPLES, candidate).rewards.r_logic == pytest.approx(0.75)
    assert evaluator.score(MATH, APPLES, candidate, opinion=0.25).rewards.r_logic == pytest.approx(0.6)


FALL = Problem(id="f", text="How fast?", answer="14.0 m/s", task="physics")


def fall(rule="v = sqrt(2 * g * h)", answer="14.0 m/s", **changes):
    return {
        "target_variable": "v",
        "knowns": {"g": "9.8 m/s^2", "h": "10 m"},
        "causal_graph": [{"cause": ["g", "h"], "effect": "v", "rule": rule}],
        "computation_plan": [{"id": "s1", "target": "v", "inputs": ["g", "h"], "description": "x"}],
        "final_answer": answer,
        **changes,
    }


def test_physics_executes_numbers_and_takes_the_stated_unit():
    scored = score(fall(), FALL, PHYSICS)
    assert scored.is_correct
    assert scored.answer_source == "executed"
    assert scored.answer == "14 m/s"
    assert scored.rewards.r_total == 1.0
    assert scored.detail["logic"]["dimensions"] == 1.0


def test_wrong_dimensions_cost_logic():
    scored = score(fall("v = 2 * g * h / 14", "14 m/s"), FALL, PHYSICS)
    assert scored.is_correct  # by luck
    assert scored.detail["logic"]["dimensions"] is None  # 14 may hide a unit
    scored = score(fall("v = 2 * g * h", "196 m/s"), FALL, PHYSICS)
    assert scored.detail["logic"]["dimensions"] == 0.5  # the product is sound, but no speed
    scored = score(fall("v = g + h", "19.8 m/s"), FALL, PHYSICS)
    assert scored.detail["logic"]["dimensions"] == 0.0


@table(
    "stated",
    [
        "≈ 14.0 m/s",
        "about 14 m/s",
        "v = 14.0 m/s",
        "The speed is 14.0 m/s.",
        r"\sqrt{196} m/s",
        "(14) m/s",
        "0.014 km/s",
    ],
)
def test_a_unit_is_taken_from_every_form_of_a_stated_answer(stated):
    scored = score(fall(answer=stated), FALL, PHYSICS)
    assert scored.answer_source == "executed"
    assert scored.is_correct
    assert scored.detail["logic"]["answers_agree"] == 1.0


@table(
    ("rule", "stated", "answer"),
    [  # h is 10
        ("v = h / 1000", "10 ms", "10 ms"),
        ("v = h", "10 ms", "10 ms"),
        ("v = h / 500", "10 ms", "0.02 ms"),
        ("v = h * 30", "26.85 °C", r"26.85 ^\circ C"),
        ("v = h / 40", "25 %", "25 %"),
        ("v = h * 5 / 2", "25 %", "25 %"),
        ("v = h / 20", "25 %", "0.5 %"),
        ("v = asin(h / 20)", "30 degrees", "30 degrees"),
        ("v = 3 * h", "30 Ppc^12", "30 Ppc^12"),
        ("v = h", "30 Ppc^12", "10 Ppc^12"),
    ],
)
def test_a_value_in_base_units_is_read_as_the_stated_one(rule, stated, answer):
    scored = score(fall(rule, stated), FALL, PHYSICS)
    assert scored.answer == answer


@table("stated", ["**", "```", "\\[", "", "$$", "<answer></answer>", "\\quad", "x" * 1001])
@table("task", [MATH, PHYSICS])
def test_a_statement_without_a_value_agrees_with_nothing(task, stated):
    scored = RewardEvaluator().score(task, APPLES, task.candidate_from_record(scaffold(), stated, APPLES))
    assert scored.is_correct
    assert scored.detail["logic"]["answers_agree"] == 0.0
    assert score(scaffold(final_answer=stated), APPLES, task).answer_source == "executed"


def test_an_agreement_that_no_checker_could_decide_is_absent(monkeypatch):
    def unavailable(*_args, **_kwargs):
        return WorkResult(Outcome.INFRA_FAULT, error="the worker did not start")

    monkeypatch.setattr(KillablePool, "run", unavailable)
    scored = score(scaffold(final_answer="sqrt(144)"))
    assert scored.answer_source == "executed"
    assert scored.detail["logic"]["answers_agree"] is None


def test_a_unit_is_part_of_a_physics_answer():
    assert not score(fall(answer="14.0 kg"), FALL, PHYSICS).is_correct
    assert not score(fall(answer="14.0"), FALL, PHYSICS).is_correct


@pytest.mark.parametrize("value", ["10^400", "10^(-400)", "7^500 / 3^400"])
def test_an_executed_value_of_any_size_is_written(value):
    problem = Problem(id="f", text="?", answer="14 m", task="physics")
    reply = fall(f"v = h * {value}", "14 m", knowns={"g": "9.8 m/s^2", "h": "10 m"})
    scored = score(reply, problem, PHYSICS)
    assert scored.answer_source == "executed"
    assert not scored.is_correct
    assert not scored.answer.startswith("0 ")


def test_an_answer_without_its_unit_is_no_length():
    problem = Problem(id="f", text="?", answer="30 m", task="physics")
    for stated, expected in (("30 m", 1.0), ("30", 0.5), ("30 degrees", 0.5)):
        reply = fall("v = 3 * h", stated, knowns={"h": "10 m", "g": "2"})
        assert score(reply, problem, PHYSICS).detail["logic"]["dimensions"] == expected


@pytest.mark.parametrize(
    ("stated", "answer"),
    [
        (["14.0 m/s", "14.0 m/s"], "14 m/s"),
        (["14 m/s", "14.0 m/s"], "14 m/s"),
        (["13.0 kg", "0.0140 km/s"], "0.014 km/s"),
        (["14.0 m/s", None], "14 m/s"),
        (["12 m/s", "13 m/s"], "14 m/s"),
    ],
)
def test_a_merged_physics_scaffold_has_its_unit(stated, answer):
    candidates = [PHYSICS.parse(Completion(text=json.dumps(fall(answer=value))), FALL) for value in stated]
    merge = PHYSICS.merge(candidates, FALL)
    assert merge.conflicts == []
    scored = RewardEvaluator().score(PHYSICS, FALL, merge.candidate)
    assert scored.answer == merge.candidate.content.final_answer == answer
    assert scored.is_correct
    assert scored.detail["logic"]["dimensions"] == 1.0


def test_a_merged_physics_scaffold_against_what_all_state_is_a_conflict():
    candidates = [PHYSICS.parse(Completion(text=json.dumps(fall(answer="13 m/s"))), FALL)] * 2
    assert PHYSICS.merge(candidates, FALL).conflicts == ["v: 14 | 13 m/s"]


def test_a_copy_adds_nothing_whatever_a_judge_thinks():
    evaluator = RewardEvaluator(CRITIC_WEIGHTS)
    candidate = MATH.parse(Completion(text=json.dumps(scaffold(computation_plan=[]))), APPLES)
    plain = RewardEvaluator().score(MATH, APPLES, candidate).rewards.r_total
    for opinion in (None, 0.0, 1.0):
        rewards = evaluator.score(MATH, APPLES, candidate, opinion=opinion, baseline=Baseline(plain, plain)).rewards
        assert rewards.r_fusion == pytest.approx(0.5)


def chain(length, closed):
    edges = [{"cause": [f"x{i}"], "effect": f"x{i + 1}", "rule": f"x{i + 1} = x{i} + 1"} for i in range(length)]
    if closed:
        edges.append({"cause": [f"x{length}"], "effect": "x0", "rule": f"x0 = x{length}"})
    return scaffold(target_variable=f"x{length}", knowns={} if closed else {"x0": 0}, causal_graph=edges)


HOSTILE = {
    "import": scaffold("apples = __import__('os').system('touch /tmp/owned')"),
    "tower": scaffold("apples = 9**9**9**9"),
    "factorial": scaffold("apples = factorial(factorial(factorial(9)))"),
    "long sum": scaffold("apples = sum(sum(i*j, i, 1, 10^9), j, 1, 10^9)"),
    "attribute": scaffold("apples = crates.__class__.__mro__[1].__subclasses__()"),
    "deep": scaffold("apples = " + "(" * 5000 + "crates" + ")" * 5000),
    "equation without end": scaffold("apples^apples^apples = crates^(each^apples)"),
    "chain": chain(9_000, closed=False),
    "ring": chain(9_000, closed=True),
    "nested": '{"a":' * 100_000,
    "braces": "{" * 300_000,
    "quotes": "{'" * 150_000,
    "ten megabytes": "x" * 10_000_000,
    "zeros": "\x00" * 100_000,
    "half characters": "\ud800" * 1000,
}


@table("name", HOSTILE)
def test_hostile_replies_end_soon_and_hurt_nothing(name):
    started = time.monotonic()
    scored = score(HOSTILE[name], Problem(id="p", text="?", answer="999"))
    assert time.monotonic() - started < 15
    assert scored.rewards.r_ans == 0
    assert scored.rewards.r_total <= 0.5
    assert scored.outcome in (Outcome.OK, Outcome.MODEL_FAULT)


@table("name", HOSTILE)
def test_physics_meets_the_same_replies(name):
    problem = Problem(id="p", text="?", answer="999 m", task="physics")
    assert score(HOSTILE[name], problem, PHYSICS).rewards.r_ans == 0


@pytest.mark.parametrize("closed", [False, True])
def test_a_graph_of_a_hundred_thousand_nodes_in_a_file(closed):
    started = time.monotonic()
    candidate = MATH.candidate_from_record(chain(100_000, closed), "999", APPLES)
    scored = RewardEvaluator().score(MATH, APPLES, candidate)
    assert scored.outcome is Outcome.MODEL_FAULT
    assert scored.rewards.r_total <= 0.5
    assert time.monotonic() - started < 15


# Recorded replies whose graph computes another number than the stated answer. The executed number is scored.
GRAPH_SAYS_OTHERWISE = {
    ("generator_1", "aime2024_003", 1): "91",
    ("generator_1", "aime2024_003", 2): "91",
    ("generator_1", "aime2024_003", 3): "29",
    ("generator_1", "aime2024_025", 3): "219/2",
    ("generator_2", "aime2024_003", 1): "29",
    ("critic", "aime2024_001", "generator_1"): "33",  # and is right where the text (89) was wrong
    ("critic", "aime2024_003", "generator_1"): "29",
}
# The recorded verdict itself is wrong: "**" is no answer.
WRONG_VERDICTS = {("critic", "aime2024_022", "generator_1"), ("critic", "aime2024_022", "generator_2")}


def recorded_candidates(recorded):
    for name in ("generator_1", "generator_2"):
        for group in read(recorded[f"{name}_rollouts"], RolloutGroup).records:
            problem = Problem(id=group.problem_id, text=group.problem_text, answer=group.ground_truth)
            for rollout in group.rollouts:
                key = (name, group.problem_id, rollout.rollout_id)
                yield key, problem, rollout.scaffold, rollout.answer, rollout.is_correct
    for fusion in read(recorded["critic_results"], Fusion).records:
        problem = Problem(id=fusion.problem_id, text=fusion.problem_text, answer=fusion.ground_truth)
        key = ("critic", fusion.problem_id, fusion.generator_id)
        yield key, problem, fusion.fused_scaffold, fusion.final_answer, fusion.is_correct


def test_verdicts_on_recorded_replies(recorded):
    otherwise, wrong = {}, set()
    evaluator = RewardEvaluator()
    sources = {"executed": 0, "stated": 0, "none": 0}
    for key, problem, raw, answer, is_correct in recorded_candidates(recorded):
        candidate = MATH.candidate_from_record(raw, answer, problem)
        assert candidate.content is not None or candidate.fault.kind == "no_json"
        scored = evaluator.score(MATH, problem, candidate)
        sources[scored.answer_source] += 1
        if scored.is_correct != is_correct:
            if scored.answer_source == "executed":
                otherwise[key] = scored.answer
            else:
                wrong.add(key)
    assert otherwise == GRAPH_SAYS_OTHERWISE
    assert wrong == WRONG_VERDICTS
    assert sources["executed"] >= 50
