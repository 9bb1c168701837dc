"""Asks an endpoint one small programming problem and checks the reply as a trace would be checked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agents.teacher import TeacherAgent
from engine.check_results import CheckResult, failed, failure_of, passed, warned
from engine.errors import ConfigurationError, ScaffoldError
from engine.llm.client import LLMClient
from engine.llm.retry import RetryPolicy
from engine.records import Outcome, Sampling
from engine.task import task_named
from engine.tasks.code.problems import code_problem

if TYPE_CHECKING:
    from agents.teacher import TeacherReply
    from engine.api_manager import ApiManager
    from engine.records import Problem

TIMEOUT_S = 300.0
"""A thinking model may need minutes for one reply. A server that is not running fails at once."""

SMALL_PROBLEM = {
    "task_id": "doctor_sum_of_even",
    "dataset": "doctor",
    "prompt": "Write a function sum_of_even(numbers) that returns the sum of the even numbers of a list.",
    "canonical_solution": "def sum_of_even(numbers):\n    return sum(n for n in numbers if n % 2 == 0)\n",
    "test_list": [
        "assert sum_of_even([1, 2, 3, 4]) == 6",
        "assert sum_of_even([]) == 0",
        "assert sum_of_even([7]) == 0",
        "assert sum_of_even([-2, 5]) == -2",
        "assert sum_of_even([10, 20]) == 30",
    ],
}

_MODEL_FIX = "Check the model's name and the prompt style (--prompts). A stronger teacher writes better traces."


def small_problem() -> Problem:
    """A problem with five tests that any model that writes Python can solve."""
    problem = code_problem(SMALL_PROBLEM, "doctor")
    if problem is None:
        raise ConfigurationError("The doctor's own problem is not read as one of programming")
    return problem


async def ask_for_solution(manager: ApiManager, role: str, style: str, max_tokens: int) -> list[CheckResult]:
    """Ask a role the small problem once. Nothing is stored.

    Returns:
        the results in order; nothing is checked after a failure.
    """
    problem = small_problem()
    try:
        endpoint = manager.endpoint(role)
        sampling = Sampling(temperature=0.7, top_p=0.8, max_tokens=max_tokens)
        async with LLMClient(manager, retry=RetryPolicy(attempts=2, total_s=30.0)) as client:
            agent = TeacherAgent(client, task_named(problem.task), sampling, style, role)
            async with asyncio.timeout(TIMEOUT_S):
                [answer] = await agent.answer(problem, [0])
    except ScaffoldError as error:
        return [failure_of(error, role)]
    except TimeoutError:
        return [failed(f"{role}: no answer within {TIMEOUT_S:.0f} s", _server_fix(endpoint.base_url))]
    if answer.reply.completion is None:
        fault = answer.reply.fault
        reason = f"{fault.kind} {fault.message}".strip() if fault else "no reason given"
        text = f"{role}: no answer from {endpoint.base_url}: {reason}"
        return [failed(text, _server_fix(endpoint.base_url))]
    completion = answer.reply.completion
    answered = passed(f"{role}: {completion.model} answered in {completion.latency_s:.1f} s")
    return [answered, *await asyncio.to_thread(_check_reply, answer, problem, max_tokens)]


def _check_reply(answer: TeacherReply, problem: Problem, max_tokens: int) -> list[CheckResult]:
    """Whether the reply has thinking and a program, and whether the program is right."""
    candidate, completion = answer.candidate, answer.reply.completion
    if candidate is None or completion is None:
        return []
    results = []
    if completion.finish_reason == "length":
        results.append(warned(f"the reply was cut off at {max_tokens} tokens", "Increase --max-tokens."))
    if answer.thinking:
        results.append(passed(f"thinking extracted ({len(answer.thinking)} characters)"))
    else:
        fix = 'Enable it in extra_body: {"chat_template_kwargs": {"enable_thinking": true}} (see docs/teacher.md).'
        results.append(warned("the reply holds no thinking", fix))
    if candidate.outcome is not Outcome.OK or candidate.content is None:
        reason = candidate.fault.message or candidate.fault.kind if candidate.fault else "it could not be read"
        return [*results, failed(f"no program in the reply: {reason}", _MODEL_FIX)]
    results.append(passed(f"code extracted ({len(candidate.content.code)} characters), valid Python"))
    measured = task_named(problem.task).evaluate(candidate, problem)
    if measured.outcome is Outcome.INFRA_FAULT:
        return [*results, failed("the sandbox could not run it", "Run python -m grpo_training.doctor to find out why.")]
    if measured.is_correct:
        return [*results, passed("it passes all tests of the problem")]
    return [*results, warned("it fails tests of a very small problem", _MODEL_FIX)]


def _server_fix(base_url: str) -> str:
    return f"Start the server at {base_url} (vllm serve MODEL --port ...), or change base_url in the API configuration."
