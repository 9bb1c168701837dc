"""Asking an endpoint with shots, and measuring its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from engine.api_manager import ApiManager
from engine.records import Problem
from grpo_training.selector.data.items import people_of
from grpo_training.selector.data.prompts import ShotPrompts
from grpo_training.selector.settings import InferSettings, RewardsSettings
from grpo_training.selector.vqa import is_same_answer, own_part, short_answer, vqa_accuracy
from grpo_training.serve.endpoints import open_client

_AT_ONCE = 256
"""Prompts that are built at a time; with images each takes megabytes."""


async def ask_with_shots(
    settings: RewardsSettings | InferSettings,
    manager: ApiManager,
    prompts: ShotPrompts,
    asked: Sequence[tuple[int, Sequence[int]]],
) -> list[str]:
    """The completions of an endpoint. Stored replies are used again.

    Args:
        settings: role and length of a reply.
        manager: of the endpoint.
        prompts: make the prompts.
        asked: query and shots of each prompt.

    Raises:
        IncompleteRunError: a request was not answered.
    """
    texts: list[str] = []
    async with open_client(settings, manager) as client:

        async def ask(query: int, shots: Sequence[int]) -> str:
            return (await prompts.completion(client, settings.role, shots, query, settings.max_tokens)).text

        for start in range(0, len(asked), _AT_ONCE):
            texts += await asyncio.gather(*(ask(*prompt) for prompt in asked[start : start + _AT_ONCE]))
    return texts


def score(problem: Problem, completion: str) -> float:
    """The accuracy of a completion: against the answers of people (``answers`` of the row), else against the answer."""
    answer, people = short_answer(completion), people_of(problem)
    if people is not None:
        return vqa_accuracy(answer, people)
    read = (answer, own_part(completion))  # a right answer may have a comma itself
    return float(any(is_same_answer(text, problem.answer) for text in read))


def measurements(problem: Problem, completion: str) -> dict[str, Any]:
    """What a reward file has of a completion: the answer and its accuracy."""
    accuracy = score(problem, completion)
    return {
        "vqa_raw_generation": completion,
        "vqa_pred_answer": short_answer(completion),
        "vqa_correct": int(accuracy > 0),
        "vqa_acc_score": accuracy,
        "vqa_eval_mode": "exact" if people_of(problem) is None else "vqaEval",
    }
