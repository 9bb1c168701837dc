"""The evaluation on held-out problems: who is asked what, what counts, what is left out, what is said of it."""

import json

import pytest

from engine.errors import FatalEndpointError
from engine.records import Completion, Experience, Fault, Outcome, Problem, Reply, Sampling
from grpo_training.evaluation.libraries import (
    BASE,
    BASE_AGAIN,
    FUSION,
    GENERATORS,
    LIBRARIES,
    MAJORITY,
    Arm,
    HeldOutEvaluation,
    figures,
    library_arm,
    verdict,
)

PROBLEM = Problem(id="p1", text="What is six times seven?", answer="42")
LESSONS = {role: [Experience(id=f"{role}-1", content=f"Lesson of {role}.")] for role in (*GENERATORS, "critic")}


def scaffold(answer):
    """A reply whose graph gives the answer."""
    return json.dumps(
        {
            "target_variable": "product",
            "knowns": {"part": answer},
            "causal_graph": [{"cause": ["part"], "effect": "product", "rule": "product = part"}],
            "computation_plan": [],
            "final_answer": "",
        }
    )


class Model:
    """Gives the answers of a script by role and sample index; None is a failed call. Notes what was asked."""

    def __init__(self, script):
        self.script, self.asked = script, []

    async def sample(self, request, sample_indices):
        self.asked.append((request, list(sample_indices)))
        key = request.role
        if request.purpose == "rollout" and "Lesson" not in request.messages[1].content:
            key = "base"
        return [self._reply(self.script[key][index], index) for index in sample_indices]

    def _reply(self, answer, index):
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            return Reply(sample_index=index, outcome=Outcome.INFRA_FAULT, fault=Fault(kind="http_500"))
        text = scaffold(answer) if isinstance(answer, int) else answer
        return Reply(sample_index=index, outcome=Outcome.OK, completion=Completion(text=text))


def script(**changes):
    right = [42, 42]
    return {
        "base": [42, 41, 41, 41],
        **dict.fromkeys(GENERATORS, right),
        "critic": right,
        **changes,
    }


async def evaluate(model, problems=(PROBLEM,), **changes):
    options = {"samples": 2, "sampling": Sampling(temperature=1.0, seed=5), "style": "compact", **changes}
    arms = await HeldOutEvaluation(model, LESSONS, **options).run(problems)
    return {arm.name: arm for arm in arms}


def verdicts(arms):
    return {name: arm.verdicts.get("p1") for name, arm in arms.items()}


async def test_arms():
    """Row 0 is 42, 41, 42: conflict, the critic says 40 (wrong), most say 42. Row 1 is 41, 43, 42: a tie."""
    model = Model(script(generator_1=[42, 41], generator_2=[41, 43], critic=[40]))
    arms = await evaluate(model)
    assert verdicts(arms) == {
        BASE: (True, False),
        BASE_AGAIN: (False, False),
        library_arm("generator_1"): (True, False),
        library_arm("generator_2"): (False, False),
        library_arm("generator_3"): (True, True),
        LIBRARIES: (True, False, False, False, True, True),
        FUSION: (False, False),
        MAJORITY: (True, False),
    }
    assert list(arms) == [BASE, BASE_AGAIN, *map(library_arm, GENERATORS), LIBRARIES, FUSION, MAJORITY]
    assert not any(arm.left_out for arm in arms.values())


async def test_prompts_are_those_of_learning():
    model = Model(script(generator_2=[41, 43]))
    await evaluate(model)
    asked = {
        (request.role, "Lesson" in request.messages[1].content): (request, drawn) for request, drawn in model.asked
    }
    assert asked["generator_1", False][1] == [0, 1, 2, 3]
    for role in GENERATORS:
        request, drawn = asked[role, True]
        assert f"Lesson of {role}." in request.messages[1].content
        assert drawn == [0, 1]
    fusion, drawn = asked["critic", True]
    assert drawn == [0]
    assert "Lesson of critic." in fusion.messages[1].content
    seeds = [request.sampling.seed for request, _ in asked.values()]
    assert len(set(seeds)) == len(seeds) == 5
    assert asked["generator_1", False][0].sampling == Sampling(temperature=1.0, seed=5)


async def test_agreeing_answers_are_fused_without_a_model():
    model = Model(script())
    arms = await evaluate(model)
    assert arms[FUSION].verdicts["p1"] == (True, True)
    assert not [request for request, _ in model.asked if request.role == "critic"]


async def test_unreadable_answers_are_wrong():
    arms = await evaluate(Model(script(generator_1=["I do not know.", 42])))
    assert arms[library_arm("generator_1")].verdicts["p1"] == (False, True)
    assert arms[MAJORITY].verdicts["p1"] == (True, True)


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"base": [42, None, 41, 41]}, {BASE}),
        ({"base": [42, 42, 41, None]}, {BASE_AGAIN}),
        ({"generator_2": [42, None]}, {library_arm("generator_2"), LIBRARIES, FUSION, MAJORITY}),
        ({"generator_2": [41, 42], "critic": [None]}, {FUSION}),
    ],
)
async def test_a_failed_call_is_missing_and_never_wrong(changes, missing):
    other = PROBLEM.model_copy(update={"id": "p2", "text": "What is 6 * 7?"})

    class HalfBroken(Model):
        async def sample(self, request, sample_indices):
            self.script = script(**changes) if PROBLEM.text in request.messages[1].content else script()
            return await super().sample(request, sample_indices)

    arms = await evaluate(HalfBroken({}), [PROBLEM, other])
    assert {name for name, arm in arms.items() if arm.left_out == ("p1",)} == missing
    for name, arm in arms.items():
        assert list(arm.verdicts) == (["p2"] if name in missing else ["p1", "p2"])


async def test_a_refusing_endpoint_ends_it():
    with pytest.raises(FatalEndpointError, match="no such model"):
        await evaluate(Model(script(generator_3=[FatalEndpointError("no such model")] * 2)))


async def test_done_is_called_once_a_problem():
    calls = []
    problems = [PROBLEM.model_copy(update={"id": f"p{number}"}) for number in range(20)]
    evaluation = HeldOutEvaluation(Model(script()), LESSONS, samples=1, sampling=Sampling(), style="compact")
    arms = await evaluation.run(problems, lambda: calls.append(1))
    assert len(calls) == 20
    assert all(len(arm.verdicts) == 20 for arm in arms)


# ------------------------------------------------------------------ figures


def arms_of(base, again, libraries):
    made = [Arm(name, {f"p{n}": one for n, one in enumerate(own)}) for name, own in ((BASE, base), (BASE_AGAIN, again))]
    return [*made, Arm(LIBRARIES, {f"p{n}": one for n, one in enumerate(libraries)})]


def test_figures_compare_common_problems():
    base = Arm(BASE, {"p1": (True, False), "p2": (False, False), "p3": (False, False)})
    other = Arm(LIBRARIES, {"p1": (True, True), "p2": (True, False), "p4": (True, True)}, ("p3",))
    first, second = figures([base, other])
    assert first.difference is None
    assert first.accuracy.value == pytest.approx(1 / 6)
    assert second.accuracy.value == pytest.approx(5 / 6)
    assert (second.difference.value, second.difference.clusters) == (pytest.approx(0.5), 2)


def test_figures_without_a_single_problem():
    told = figures([Arm(BASE, {}, ("p1",)), Arm(BASE_AGAIN, {}), Arm(LIBRARIES, {})])
    assert all(one.accuracy is None and one.difference is None for one in told)
    assert "Too few problems" in verdict(told)


@pytest.mark.parametrize(
    ("libraries", "words"),
    [
        ([(True, True)] * 30 + [(True, False)] * 10, "gain is real: +37.5 points (95 % interval"),
        ([(False, False)] * 38 + [(True, False)] * 2, "The libraries do harm: -47.5 points (95 % interval"),
        ([(True, False)] * 40, "No gain can be told from chance: the libraries make +0.0 points (95 % interval"),
    ],
)
def test_verdict_in_words(libraries, words):
    base = [(True, False), (False, True)] * 20
    said = verdict(figures(arms_of(base, base[:20] + [(True, True), (False, False)] * 10, libraries)))
    assert words in said
    assert "the base against itself differs by +0.0 points" in said
