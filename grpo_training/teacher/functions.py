"""Prompt, reader and reward of Python problems as plain functions, for programs that train on their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.records import Completion, Message, Problem
from engine.reward_evaluator import RewardEvaluator
from engine.task import Task
from engine.tasks.registry import task_of_row
from grpo_training.agents.generator import generator_messages


def get_unified_prompt(task_description: str, test_list: Sequence[str] = (), *, style: str = "full") -> str:
    """The user message that teacher, training and evaluation send for a problem.

    Args:
        task_description: the text of the problem.
        test_list: assert statements; the first one is shown, as in the datasets.
        style: prompt style: full, compact or zh.
    """
    return unified_messages(task_description, test_list, style=style)[-1].content


def unified_messages(
    task_description: str, test_list: Sequence[str] = (), *, style: str = "full"
) -> tuple[Message, ...]:
    """The whole prompt: the system message and that of :func:`get_unified_prompt`."""
    return generator_messages(_task(), _problem(task_description, test_list), (), style)


def extract_thinking_and_code_unified(response: str) -> dict[str, str | None]:
    """The ``thinking`` and the ``code`` of a reply; None for what it does not have."""
    task, completion = _task(), Completion(text=response)
    candidate = task.parse(completion, _problem("-", ()))
    return {"thinking": task.thinking(completion), "code": task.to_record(candidate) or None}


def extract_function_from_code(response: str) -> str:
    """The program of a reply, without thinking and Markdown; empty if there is none."""
    return extract_thinking_and_code_unified(response)["code"] or ""


def compute_reward(code: str, test_cases: Sequence[str], test_setup_code: str = "") -> float | None:
    """The reward of a program, from 0 (no test passes) to 1 (all pass), as training and evaluation compute it.

    Args:
        code: the program. It is run in the sandbox.
        test_cases: assert statements.
        test_setup_code: runs before each of them.

    Returns:
        None if there are no tests, or they could not be run through no fault of the program.

    Raises:
        InputError: a test cannot be read.
        ConfigurationError: this machine has no sandbox that isolates programs.
    """
    if not test_cases:
        return None
    problem = _problem("-", test_cases, test_setup_code)
    task = _task()
    candidate = task.candidate_from_record(code, None, problem)
    scored = RewardEvaluator().score(task, problem, candidate)
    return scored.rewards.r_total if scored.outcome.carries_reward else None


def _task() -> Task:
    """The task of rows with assert statements."""
    task = task_of_row({"test_list": []})
    assert task is not None
    return task


def _problem(text: str, test_list: Sequence[str], setup: str = "") -> Problem:
    tests: dict[str, Any] = {"tests": [{"kind": "assert", "code": "assert True"}], "public_count": 0}
    if test_list:
        tests = {"test_list": list(test_list), "test_setup_code": setup}
    return _task().problem_from_row({"task_id": "0", "prompt": text, **tests}, "the problem")


SYSTEM_PROMPT_UNIFIED = unified_messages("-")[0].content
"""The system message of the prompt style ``full``."""
