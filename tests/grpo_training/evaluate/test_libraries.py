"""The evaluation of libraries: which prompts are sent, which answers count, which problems are left out."""

import pytest

from engine.errors import FatalEndpointError
from engine.experience.state import LibraryState
from engine.records import Completion, Experience, Fault, Outcome, Problem, Reply, Sampling
from grpo_training.evaluate.libraries import (
    BASE,
    BASE_AGAIN,
    FUSION,
    GENERATORS,
    LIBRARIES,
    MAJORITY,
    LibraryEvaluation,
    library_arm,
)
from tests.support.scaffolds import scaffold_reply

PROBLEM = Problem(id="p1", text="What is six times seven?", answer="42")
LESSONS = {
    role: LibraryState((Experience(id=f"{role}-1", content=f"Lesson of {role}."),), {}, 2)
    for role in (*GENERATORS, "critic")
}


class Model:
    """Replies by role and sample index from a script; None is a failed call. Keeps the requests."""

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
        text = scaffold_reply(answer) if isinstance(answer, int) else answer
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
    arms = await LibraryEvaluation(model, LESSONS, **options).run(problems)
    return {arm.name: arm for arm in arms}


def verdicts(arm, problem_id="p1"):
    """The verdicts on a problem; None if it is left out."""
    return next((result.verdicts for result in arm.complete if result.problem_id == problem_id), None)


async def test_arms():
    """Row 0 is 42, 41, 42: the critic answers 40, the majority 42. Row 1 is 41, 43, 42: a tie."""
    model = Model(script(generator_1=[42, 41], generator_2=[41, 43], critic=[40]))
    arms = await evaluate(model)
    assert {name: verdicts(arm) for name, arm in arms.items()} == {
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
    assert verdicts(arms[FUSION]) == (True, True)
    assert not [request for request, _ in model.asked if request.role == "critic"]


async def test_unreadable_answers_are_wrong():
    arms = await evaluate(Model(script(generator_1=["I do not know.", 42])))
    assert verdicts(arms[library_arm("generator_1")]) == (False, True)
    assert verdicts(arms[MAJORITY]) == (True, True)


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
        assert [result.problem_id for result in arm.complete] == (["p2"] if name in missing else ["p1", "p2"])


async def test_a_rejected_request_stops_the_evaluation():
    with pytest.raises(FatalEndpointError, match="no such model"):
        await evaluate(Model(script(generator_3=[FatalEndpointError("no such model")] * 2)))


async def test_done_is_called_once_a_problem():
    calls = []
    problems = [PROBLEM.model_copy(update={"id": f"p{number}"}) for number in range(20)]
    evaluation = LibraryEvaluation(Model(script()), LESSONS, samples=1, sampling=Sampling(), style="compact")
    arms = await evaluation.run(problems, lambda: calls.append(1))
    assert len(calls) == 20
    assert all(len(arm.complete) == 20 for arm in arms)
