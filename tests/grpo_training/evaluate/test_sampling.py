"""Drawing and judging the samples of a model."""

import asyncio
from dataclasses import replace

import pytest

from engine.errors import FatalEndpointError, IncompleteRunError
from engine.records import Completion, Experience, Fault, Outcome, Problem, Reply, Sampling, Usage
from engine.reward_evaluator import RewardEvaluator
from grpo_training.evaluate.figures import figures
from grpo_training.evaluate.sampling import evaluate_problems
from tests.support.scaffolds import scaffold_reply

SAMPLING = Sampling(temperature=0.7, max_tokens=50, seed=3)


def problem(name, answer="42", **meta):
    return Problem(id=name, text=f"What is the number of {name}?", answer=answer, meta=meta)


class Model:
    """Replies to each problem from its list: an answer, a text, None for a failed call, or an exception."""

    def __init__(self, **replies):
        self.replies, self.asked = replies, []

    async def sample(self, request, sample_indices):
        self.asked.append(request)
        name = next(name for name in self.replies if f" {name}?" in request.messages[-1].content)
        await asyncio.sleep(0.02 if name == "p1" else 0)  # completions arrive in another order
        return [self._reply(self.replies[name][index], index) for index in sample_indices]

    def _reply(self, reply, index):
        if isinstance(reply, Exception):
            raise reply
        if reply is None:
            return Reply(sample_index=index, outcome=Outcome.INFRA_FAULT, fault=Fault(kind="http_503"))
        text, finish = (scaffold_reply(reply), "stop") if isinstance(reply, int) else (reply, "length")
        usage = Usage(prompt_tokens=10, completion_tokens=len(text), cost_usd=0.25)
        completion = Completion(text=text, finish_reason=finish, usage=usage)
        return Reply(sample_index=index, outcome=Outcome.OK, completion=completion)


async def evaluate(model, problems, samples=2, **options):
    return await evaluate_problems(
        model, "generator_1", problems, samples=samples, sampling=SAMPLING, style="compact", **options
    )


async def test_samples_are_judged_in_the_order_of_the_problems():
    model = Model(p1=[42, 41, "no object"], p2=[42, 42, 42])
    judged = []
    first, second = await evaluate(
        model, [problem("p1"), problem("p2")], 3, judged=lambda result, samples: judged.append((result, samples))
    )
    assert (first.verdicts, second.verdicts) == ((True, False, False), (True, True, True))
    assert (first.counts, second.counts) == ((3, 1), (3, 3))
    assert [result.problem_id for result, _ in judged] == ["p1", "p2"]
    assert [sample.answer for sample in judged[0][1]] == ["42", "41", None]
    assert (first.truncated, first.unreadable, first.completions) == (1, 1, 3)
    assert first.endings["ok"] == 2
    assert first.cost_usd == 0.75
    assert first.prompt_tokens == 30


async def test_an_unreadable_reply_is_one_sample_and_not_asked_for_again():
    model = Model(p1=["no object", 42])
    [result] = await evaluate(model, [problem("p1")])
    assert result.verdicts == (False, True)
    assert len(model.asked) == 1


async def test_the_prompt_is_that_of_learning_with_the_lessons_that_are_given():
    model = Model(p1=[42, 42])
    await evaluate(model, [problem("p1")])
    await evaluate(model, [problem("p1")], experiences=[Experience(id="G1-001", content="Mind the unit.")])
    without, with_lesson = (request.messages[-1].content for request in model.asked)
    assert "Mind the unit." in with_lesson
    assert "Mind" not in without
    assert model.asked[0].sampling == SAMPLING


async def test_a_failed_call_leaves_the_problem_open_and_is_never_wrong():
    results = await evaluate(Model(p1=[42, None], p2=[42, 41]), [problem("p1"), problem("p2")])
    assert results[0].verdicts == (True, None)
    assert not results[0].is_complete
    assert results[0].endings == {"ok": 1, "infra_fault: http_503": 1}
    assert (figures(results).problems, figures(results).left_out) == (1, ("p1",))


async def test_a_checker_that_cannot_be_started_leaves_the_problem_open():
    class Broken(RewardEvaluator):
        def score(self, task, problem, candidate, **options):
            scored = super().score(task, problem, candidate, **options)
            return replace(scored, outcome=Outcome.INFRA_FAULT, is_correct=None)

    [result] = await evaluate(Model(p1=[42, 42]), [problem("p1")], evaluator=Broken())
    assert result.verdicts == (None, None)
    assert result.completions == 2


async def test_an_endpoint_that_never_answers_is_given_up_early():
    dead = {f"p{number}": [None, None] for number in range(1, 100)}
    judged = []
    with pytest.raises(IncompleteRunError, match="no completion for 4 problems in a row") as stopped:
        await evaluate(Model(**dead), [problem(name) for name in dead], judged=lambda result, _: judged.append(result))
    assert len(judged) == 4
    assert stopped.value.exit_code == 2
    assert stopped.value.why == "Most frequent error: infra_fault: http_503 (8 samples)."


async def test_failures_between_answers_do_not_stop_an_evaluation():
    replies = {f"p{number}": [None, None] for number in range(1, 8)} | {"p4": [42, None]}
    results = await evaluate(Model(**replies), [problem(name) for name in replies])
    assert [result.completions for result in results] == [0, 0, 0, 1, 0, 0, 0]


async def test_a_rejected_request_stops_the_evaluation():
    with pytest.raises(FatalEndpointError, match="no such model"):
        await evaluate(Model(p1=[FatalEndpointError("no such model")] * 2), [problem("p1")])
