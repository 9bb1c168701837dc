"""Draws samples of a model on problems and judges them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing

from engine.errors import IncompleteRunError
from engine.experience.choice import PromptExperiences, experiences_for
from engine.records import ChatRequest, Outcome, Problem, Reply, Sampling
from engine.reward_evaluator import RewardEvaluator
from engine.task import Task
from engine.task_protocols import asked_through, schema_of
from engine.tasks.registry import task_named
from grpo_training.agents.chat import ChatClient, with_images
from grpo_training.agents.generator import generator_messages, read_candidate
from grpo_training.agents.judge import Judge, judged_by_rubric
from grpo_training.evaluate.arms import JudgedSample, ProblemResult, frequent_fault
from grpo_training.runs.window import in_window

_SAMPLES_IN_FLIGHT = 256
"""More than local servers and most endpoints process at once; the client's own limits apply in addition."""

_MIN_PROBLEMS_IN_FLIGHT = 4
"""Keeps the server busy while one problem waits for a long completion."""

_UNANSWERED_LIMIT = 4
"""Consecutive problems without any completion after which the endpoint counts as unavailable."""


async def evaluate_problems(
    client: ChatClient,
    role: str,
    problems: Sequence[Problem],
    *,
    samples: int,
    sampling: Sampling,
    first_sample: int = 0,
    style: str = "full",
    experiences: PromptExperiences = (),
    evaluator: RewardEvaluator | None = None,
    judged: Callable[[ProblemResult, Sequence[JudgedSample]], None] = lambda result, samples: None,
    judge_role: str | None = None,
    at_once: bool = False,
) -> list[ProblemResult]:
    """Draw samples of every problem and judge them.

    Prompts, tasks and verifiers are those of learning. Unlike in learning, the model is not asked again for a
    completion that cannot be parsed, as the second attempt would be counted as the first.

    Args:
        client: draws the samples.
        role: the role whose endpoint is asked.
        problems: the problems, already checked by their tasks.
        samples: number of samples per problem.
        first_sample: index of the first sample; other indices are other samples of the same prompt.
        sampling: sampling parameters.
        style: prompt style.
        experiences: those in the prompt: the same for all problems, or those that a library chooses.
        evaluator: scores the candidates.
        judged: called after each problem, in the order of ``problems``, with its result and its samples. The
            samples are not kept afterwards.
        judge_role: role that judges answers by the rubric of their problem; None: ``role``.
        at_once: ask all problems at the same time, as for a batch.

    Returns:
        one result per problem, in their order.

    Raises:
        IncompleteRunError: several consecutive problems got no completion at all.
        ScaffoldError: from the client: rejected requests, an exhausted budget, a journal that cannot be written.
    """
    scorer = evaluator or RewardEvaluator()
    judge = Judge(client, judge_role or role, max_tokens=sampling.max_tokens, style=style)
    results: list[ProblemResult] = []

    async def work(problem: Problem) -> list[JudgedSample]:
        task = task_named(problem.task)
        request = ChatRequest(
            role=role,
            messages=generator_messages(task, problem, experiences_for(problem, experiences), style),
            sampling=sampling,
            json_schema=schema_of(task, problem),
            purpose="evaluation",
        )
        request = await with_images(request, task, problem)
        replies = await asked_through(task, client).sample(request, range(first_sample, first_sample + samples))
        return list(await asyncio.gather(*(_judge(scorer, judge, task, problem, reply) for reply in replies)))

    window = len(problems) if at_once else max(_MIN_PROBLEMS_IN_FLIGHT, _SAMPLES_IN_FLIGHT // samples)
    async with aclosing(in_window(problems, window, work)) as answered:
        async for problem, judged_samples in answered:
            results.append(ProblemResult.of(problem, judged_samples))
            judged(results[-1], judged_samples)
            _check_answered(results)
    return results


async def _judge(scorer: RewardEvaluator, judge: Judge, task: Task, problem: Problem, reply: Reply) -> JudgedSample:
    """Parse and score one completion, in a thread as a checker may take seconds."""
    if reply.outcome is Outcome.INFRA_FAULT:
        return JudgedSample(reply.sample_index, reply.outcome, None, fault=reply.fault)
    candidate = await asyncio.to_thread(read_candidate, task, problem, reply)
    verdict = await judged_by_rubric(judge, task, problem, candidate)
    opinion = None if verdict is None else verdict.score
    scored = await asyncio.to_thread(scorer.score, task, problem, candidate, opinion=opinion)
    return JudgedSample(
        reply.sample_index,
        scored.outcome,
        None if scored.outcome is Outcome.INFRA_FAULT else scored.is_correct,
        scored.answer,
        scored.fault,
        reply.completion,
        is_readable=candidate.outcome is Outcome.OK and scored.outcome is not Outcome.MODEL_FAULT,
    )


def _check_answered(results: Sequence[ProblemResult]) -> None:
    """Stop if the newest problems got no completion at all.

    Problems whose requests alone failed do not count, once others were answered.

    Raises:
        IncompleteRunError: there are ``_UNANSWERED_LIMIT`` of them.
    """
    newest = results[-_UNANSWERED_LIMIT:]
    if len(newest) < _UNANSWERED_LIMIT or any(result.completions for result in newest):
        return
    if all(result.refused for result in newest) and any(result.completions for result in results):
        return
    raise IncompleteRunError(
        f"The endpoint returned no completion for {_UNANSWERED_LIMIT} problems in a row",
        why=frequent_fault(newest).strip(),
        fix="Check the endpoint, then run the same command again. Completions received so far are reused.",
    )
