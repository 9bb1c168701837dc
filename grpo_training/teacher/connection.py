"""Ask an endpoint one small programming problem, execute what comes, and say what was found."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from engine.errors import ConfigurationError, ScaffoldError
from engine.records import Outcome, Sampling
from grpo_training.doctor_checks.results import Report, failed, failure_of, passed, warned

if TYPE_CHECKING:
    from typing import TextIO

    from agents.teacher import TeacherReply
    from engine.api_manager import ApiManager
    from engine.records import Problem
    from grpo_training.doctor_checks.results import Finding

PATIENCE_S = 300.0
"""A thinking model may take minutes for its first reply; a server that is gone says so at once."""

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


def small_problem() -> Problem:
    """A problem with five tests that any model that writes Python can solve."""
    from engine.tasks.code.problems import code_problem

    problem = code_problem(SMALL_PROBLEM, "doctor")
    if problem is None:
        raise ConfigurationError("The doctor's own problem is not read as one of programming")
    return problem


async def test_connection(manager: ApiManager, style: str, max_tokens: int, stream: TextIO) -> int:
    """Ask the teacher and print what was found; exit code 2 where traces could not be made so."""
    from agents.teacher import ROLE

    report = Report(stream)
    for finding in await ask_for_code(manager, ROLE, style, max_tokens):
        report.add(finding)
    return ConfigurationError.exit_code if report.failures else 0


async def ask_for_code(manager: ApiManager, role: str, style: str, max_tokens: int) -> list[Finding]:
    """Ask a role the small problem once; nothing is stored.

    Returns:
        what was found, in order; the first failure ends it.
    """
    from agents.teacher import TeacherAgent
    from engine.llm.client import LLMClient
    from engine.llm.retry import RetryPolicy
    from engine.task import task_named

    problem = small_problem()
    try:
        endpoint = manager.endpoint(role)
        sampling = Sampling(temperature=0.7, top_p=0.8, max_tokens=max_tokens)
        async with LLMClient(manager, retry=RetryPolicy(attempts=2, total_s=30.0)) as client:
            agent = TeacherAgent(client, task_named(problem.task), sampling, style, role)
            async with asyncio.timeout(PATIENCE_S):
                [answer] = await agent.answer(problem, [0])
    except ScaffoldError as error:
        return [failure_of(error, role)]
    except TimeoutError:
        return [failed(f"{role}: no answer within {PATIENCE_S:.0f} s", _fix_of_server(endpoint.base_url))]
    if answer.reply.completion is None:
        fault = answer.reply.fault
        reason = f"{fault.kind} {fault.message}".strip() if fault else "no reason given"
        text = f"{role}: no answer from {endpoint.base_url}: {reason}"
        return [failed(text, _fix_of_server(endpoint.base_url))]
    completion = answer.reply.completion
    found = [passed(f"{role}: {completion.model} answered in {completion.latency_s:.1f} s")]
    return found + await asyncio.to_thread(_look_at, answer, problem, max_tokens)


def _look_at(answer: TeacherReply, problem: Problem, max_tokens: int) -> list[Finding]:
    """Thinking, code, and whether it is right."""
    from engine.task import task_named

    candidate, completion = answer.candidate, answer.reply.completion
    if candidate is None or completion is None:
        return []
    found = []
    if completion.finish_reason == "length":
        found.append(warned(f"the reply was cut off at {max_tokens} tokens", "Give more with --max-tokens."))
    if answer.thinking:
        found.append(passed(f"thinking extracted ({len(answer.thinking)} characters)"))
    else:
        fix = 'Turn it on in extra_body: {"chat_template_kwargs": {"enable_thinking": true}} (see docs/teacher.md).'
        found.append(warned("the reply holds no thinking", fix))
    if candidate.outcome is not Outcome.OK or candidate.content is None:
        reason = candidate.fault.message or candidate.fault.kind if candidate.fault else "it could not be read"
        return [*found, failed(f"no program in the reply: {reason}", _FIX_OF_MODEL)]
    found.append(passed(f"code extracted ({len(candidate.content.code)} characters), valid Python"))
    measured = task_named(problem.task).evaluate(candidate, problem)
    if measured.outcome is Outcome.INFRA_FAULT:
        return [*found, failed("the sandbox could not run it", "python -m grpo_training.doctor says what is missing.")]
    if measured.is_correct:
        return [*found, passed("it passes all tests of the problem")]
    return [*found, warned("it fails tests of a very small problem", _FIX_OF_MODEL)]


_FIX_OF_MODEL = "Look at the model's name and its prompt style (--prompts); a stronger teacher writes better traces."


def _fix_of_server(base_url: str) -> str:
    return (
        f"Start the server behind {base_url} (vllm serve MODEL --port ...), or mend base_url in the API configuration."
    )
