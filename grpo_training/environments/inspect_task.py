"""An exported task for inspect_ai: the problems as samples, one reply each, and the reward of their task as scores."""

from __future__ import annotations

import asyncio
from pathlib import Path

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, ContentReasoning
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState, generate

from engine.records import Problem
from grpo_training.environments.problem_files import PromptedProblem, read_problems, score_reply


def problem_task(folder: Path) -> Task:
    """The task of an exported folder.

    Raises:
        InputError: the folder's problems are damaged.
        ConfigurationError: a tool that the problems' task needs is missing.
    """
    problems = read_problems(folder)
    return Task(dataset=MemoryDataset([_sample(one) for one in problems]), solver=generate(), scorer=task_reward())


def _sample(one: PromptedProblem) -> Sample:
    messages = [
        (ChatMessageSystem if message.role == "system" else ChatMessageUser)(content=message.content)
        for message in one.messages
    ]
    metadata = {"problem": one.problem.model_dump(mode="json")}
    return Sample(id=one.problem.id, input=messages, target=one.problem.answer, metadata=metadata)


@scorer(metrics={"*": [mean(), stderr()]})
def task_reward() -> Scorer:
    """``r_total``, its components, and whether the answer is right (1 or 0).

    A reply that could not be measured is an error of the sample and no score.
    """

    async def score(state: TaskState, target: Target) -> Score:
        content = state.output.message.content if state.output.choices else ""
        parts = [] if isinstance(content, str) else content
        scored = await asyncio.to_thread(
            score_reply,
            Problem.model_validate(state.metadata["problem"]),
            state.output.completion,
            reasoning="\n".join(part.reasoning for part in parts if isinstance(part, ContentReasoning)) or None,
            is_cut_off=state.output.stop_reason in ("max_tokens", "model_length"),
        )
        values = {"r_total": scored.rewards.r_total, **scored.rewards.by_name(), "is_correct": scored.is_correct}
        return Score(
            value={name: float(value) for name, value in values.items() if value is not None},
            answer=scored.answer,
            metadata=scored.detail,
        )

    return score
