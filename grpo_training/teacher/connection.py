"""Asks an endpoint the example problem of a task and checks the reply as a trace would be checked."""

from __future__ import annotations

import asyncio

from engine.abilities import ChecksItself
from engine.api_manager import ApiManager
from engine.contract.checks import CheckResult, failed, failure_of, passed, warned
from engine.errors import ScaffoldError
from engine.llm.client import LLMClient
from engine.llm.retry import RetryPolicy
from engine.records import Fault, Problem, Sampling
from engine.task import Task
from engine.tasks.registry import known_tasks
from grpo_training.agents.teacher import TeacherAgent, TeacherReply
from grpo_training.teacher.traces import READABLE
from grpo_training.teacher.verdicts import scored_fields

TIMEOUT_S = 300.0
"""A thinking model may need minutes for one reply. A server that is not running fails at once."""

_MODEL_FIX = "Check the model's name and the prompt style (--prompts). A stronger teacher writes better traces."


async def ask_for_solution(manager: ApiManager, role: str, style: str, max_tokens: int) -> list[CheckResult]:
    """Ask a role an example problem once. Nothing is stored.

    Returns:
        the results in order; nothing is checked after a failure.
    """
    task = next(task for task in known_tasks() if isinstance(task, ChecksItself))
    problem = task.example.problem
    try:
        endpoint = manager.endpoint(role)
        sampling = Sampling(temperature=0.7, top_p=0.8, max_tokens=max_tokens)
        async with LLMClient(manager, retry=RetryPolicy(attempts=2, total_s=30.0)) as client:
            agent = TeacherAgent(client, task, sampling, style, role)
            async with asyncio.timeout(TIMEOUT_S):
                [answer] = await agent.answer(problem, [0])
    except ScaffoldError as error:
        return [failure_of(error, role)]
    except TimeoutError:
        return [failed(f"{role}: no answer within {TIMEOUT_S:.0f} s", _server_fix(endpoint.shown_url))]
    if answer.reply.completion is None:
        fault = answer.reply.fault or Fault(kind="no reason given")
        text = f"{role}: no answer from {endpoint.shown_url}: {fault.message or fault.kind}"
        return [failed(text, _server_fix(endpoint.shown_url))]
    return await asyncio.to_thread(_check_reply, answer, task, problem, role)


def _check_reply(answer: TeacherReply, task: Task, problem: Problem, role: str) -> list[CheckResult]:
    """Whether the reply has thinking and can be read, and whether it is right."""
    candidate, completion = answer.candidate, answer.reply.completion
    assert candidate is not None
    assert completion is not None
    results = [passed(f"{role}: {completion.model} answered in {completion.latency_s:.1f} s")]
    if completion.finish_reason == "length":
        results.append(warned("the reply was cut off", "Increase --max-tokens."))
    if answer.thinking:
        results.append(passed(f"thinking extracted ({len(answer.thinking)} characters)"))
    else:
        fix = 'Add "extra_body": {"chat_template_kwargs": {"enable_thinking": true}} to the entry of the teacher.'
        results.append(warned("the reply holds no thinking", fix))
    scored = scored_fields(task, problem, candidate)
    if isinstance(scored, Fault):
        return [*results, failed(f"it could not be scored: {scored.message}", "Run python -m grpo_training.doctor.")]
    if scored["status"] != READABLE:
        reason = candidate.fault.message if candidate.fault else ""
        return [*results, failed(f"the reply cannot be read: {reason or scored['status']}", _MODEL_FIX)]
    results.append(passed(f"answer extracted ({len(scored['code'])} characters)"))
    if scored["verdict"].all_passed:
        return [*results, passed("it is right")]
    return [*results, warned("it is wrong, although the problem is very small", _MODEL_FIX)]


def _server_fix(base_url: str) -> str:
    return f"Start the server at {base_url} (vllm serve MODEL --port ...), or change base_url in the API configuration."
