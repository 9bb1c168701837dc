"""The scored rows: the rows of the rollouts with their verdicts, rewards and advantages."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from engine.records import Problem
from engine.storage.append_log import replacement
from engine.task import Task
from grpo_training.agents.generator import generator_messages
from grpo_training.rl_math.advantages import group_advantages
from grpo_training.score_rollouts.rollout_rows import Survey, good_rows
from grpo_training.score_rollouts.settings import ScoreSettings
from grpo_training.score_rollouts.verdicts import RowVerdict, completion_hash

Advantages = list[list[float] | None]
"""The advantages of each group, in the order of its rows; None if a reply could not be verified."""

_KEPT_PROMPTS = 256  # rendered prompts in memory; the rows of a prompt are mostly neighbours


def advantages_of(survey: Survey, verdicts: Sequence[RowVerdict]) -> Advantages:
    """The advantages of a verified run, by the number of the group."""
    rewards: list[list[float | None]] = [[] for _ in survey.groups]
    for group, (verdict, _) in zip(survey.group_of, verdicts, strict=True):
        rewards[group].append(verdict.total)
    return [group_advantages(of_group) for of_group in rewards]


def write_scored(
    settings: ScoreSettings,
    task: Task,
    problems: Mapping[str, Problem],
    survey: Survey,
    advantages: Advantages,
    verdicts: Sequence[RowVerdict],
) -> None:
    """Write the out file: the keys of each row are kept. It appears under its name when it is complete."""

    @functools.lru_cache(_KEPT_PROMPTS)
    def prompt_of(prompt_id: str) -> list[dict[str, Any]]:
        messages = generator_messages(task, problems[prompt_id], (), settings.prompt_style)
        return [message.model_dump() for message in messages]

    values = [iter(of_group or ()) for of_group in advantages]
    with replacement(settings.out) as stream:
        for number, row in enumerate(good_rows(settings.rollouts, task, problems)):
            verdict, is_cached = verdicts[number]
            line = {
                **row.row,
                **({"prompt_id": row.prompt_id} if row.row.get("prompt_id") is None else {}),
                **verdict.row,
                **({} if "prompt" in row.row or "messages" in row.row else {"prompt": prompt_of(row.prompt_id)}),
                "task": task.name,
                "advantage": next(values[survey.group_of[number]], None),
                "is_correct": verdict.is_correct,
                "validation": verdict.validation,
                "reward": {"components": verdict.components, **verdict.reward, "total": verdict.total},
                "derived": {
                    "outcome": str(verdict.outcome),
                    "cached": is_cached,
                    "completion_hash": completion_hash(row.completion),
                    **verdict.row.get("derived", {}),
                },
            }
            content = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
            stream.write(content.encode(errors="replace") + b"\n")  # a lone surrogate becomes ?
