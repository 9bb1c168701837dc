"""Asking an endpoint with shots, and measuring its answers."""

from __future__ import annotations

import asyncio
import difflib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from engine.errors import IncompleteRunError
from engine.llm.client import LLMClient
from engine.records import ChatRequest, Message, Outcome, Problem, Sampling
from grpo_training.selector.asking.settings import InferSettings, RewardsSettings
from grpo_training.selector.data.beams import ShotPrompts
from grpo_training.selector.data.items import people_of
from grpo_training.selector.vqa import is_same_answer, normalize_answer, own_part, short_answer, vqa_accuracy

_AT_ONCE = 256
"""Prompts that are built at a time; with images each takes megabytes."""


async def ask_with_shots(
    client: LLMClient,
    settings: RewardsSettings | InferSettings,
    prompts: ShotPrompts,
    asked: Sequence[tuple[int, Sequence[int]]],
) -> list[str]:
    """The completions of an endpoint. Stored replies are used again.

    Args:
        client: of the endpoint.
        settings: role and length of a reply.
        prompts: make the prompts.
        asked: query and shots of each prompt.

    Raises:
        IncompleteRunError: a request was not answered.
    """

    async def one(query: int, shots: Sequence[int]) -> str:
        request = ChatRequest(
            role=settings.role,
            messages=(Message(role="user", content=prompts.text(shots, query)),),
            sampling=Sampling(temperature=0.0, max_tokens=settings.max_tokens),
            purpose="evaluation",
            images=prompts.data_urls(shots, query),
        )
        [reply] = await client.sample(request, [0])
        if reply.outcome is Outcome.INFRA_FAULT:
            kind = reply.fault.kind if reply.fault else "unknown"
            raise IncompleteRunError(
                f"{prompts.problems[query].id}: no reply ({kind})",
                fix="Run the same command again; stored replies are used.",
            )
        return reply.completion.text if reply.completion else ""

    found: list[str] = []
    for start in range(0, len(asked), _AT_ONCE):
        found += await asyncio.gather(*(one(query, shots) for query, shots in asked[start : start + _AT_ONCE]))
    return found


def score(problem: Problem, completion: str) -> float:
    """The accuracy of a completion: against the answers of people (``answers`` of the row), else against the answer."""
    answer, people = short_answer(completion), people_of(problem)
    if people is not None:
        return vqa_accuracy(answer, people)
    read = (answer, own_part(completion))  # a right answer may have a comma itself
    return float(any(is_same_answer(one, problem.answer) for one in read))


def measurements(problem: Problem, completion: str) -> dict[str, Any]:
    """What a reward file has of a completion: the answer, its accuracy, and its likeness to the references.

    ``vqa_rel_score`` is the largest of token F1 and of the share of equal characters, over all references.
    """
    answer, accuracy = short_answer(completion), score(problem, completion)
    said = normalize_answer(answer)
    references = {normalize_answer(one) for one in people_of(problem) or [problem.answer]}
    overlap = max(_token_f1(said, one) for one in references)
    alike = max(difflib.SequenceMatcher(None, said, one).ratio() for one in sorted(references)) if said else 0.0
    return {
        "vqa_raw_generation": completion,
        "vqa_pred_answer": answer,
        "vqa_correct": int(accuracy > 0),
        "vqa_acc_score": accuracy,
        "vqa_rel_token_f1": overlap,
        "vqa_rel_edit_sim": alike,
        "vqa_rel_score": max(overlap, alike),
        "vqa_eval_mode": "exact" if people_of(problem) is None else "vqaEval",
    }


def _token_f1(said: str, reference: str) -> float:
    one, other = said.split(), reference.split()
    both = (Counter(one) & Counter(other)).total()
    return 2 * both / (len(one) + len(other)) if both else 0.0
