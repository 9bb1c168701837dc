"""The scored rows: the rows of the rollouts with their verdicts, rewards and advantages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agents.generator import generator_messages
from engine.records import Problem
from engine.storage.append_log import replacement
from engine.task import Task
from grpo_training.rl_math.advantages import GroupAdvantages, group_advantages
from grpo_training.score_rollouts.near_copies import Payment
from grpo_training.score_rollouts.rollout_rows import RolloutRow, Survey, good_rows
from grpo_training.score_rollouts.settings import ScoreSettings
from grpo_training.score_rollouts.verdict_log import WorkEntry, WorkLog, as_json_line
from grpo_training.score_rollouts.verdicts import completion_hash

NO_PROMPT = "none"
"""The prompt style that leaves the field ``prompt`` out."""

_KEPT_PROMPTS = 256  # rendered prompts in memory; the rows of a prompt are mostly neighbours


def advantages_of(found: Survey, rewards: Sequence[float | None], settings: ScoreSettings) -> list[GroupAdvantages]:
    """The advantages of all groups, by the number of the group; the values are in the order of the rows."""
    of_group: list[list[float | None]] = [[] for _ in found.groups]
    for number, reward in zip(found.group_of, rewards, strict=True):
        of_group[number].append(reward)
    return [
        group_advantages(each, eps=settings.adv_eps, std_min=settings.adv_std_min, norm=settings.adv_norm)
        for each in of_group
    ]


def write_scored(
    settings: ScoreSettings,
    task: Task,
    problems: Mapping[str, Problem],
    found: Survey,
    groups: Sequence[GroupAdvantages],
    paid: Sequence[Payment],
    log: WorkLog,
    seen: Callable[[RolloutRow, WorkEntry, Payment], object],
) -> None:
    """Write the out file. It appears under its name when it is complete.

    Args:
        settings: the settings.
        task: the task.
        problems: by prompt id.
        found: the survey of the rollouts.
        groups: the advantages.
        paid: the rewards of the rows.
        log: the verdicts.
        seen: called for each row with its verdict and its reward.
    """
    prompt_of = _prompts(task, problems, settings.prompt_style)
    places = [0] * len(groups)
    with replacement(settings.out) as stream:
        for number, row in enumerate(good_rows(settings.rollouts, task, problems)):
            entry, group = log.entry(number), found.group_of[number]
            values = groups[group].values
            advantage = None if values is None else values[places[group]]
            places[group] += 1
            prompt = prompt_of(row.prompt_id)
            stream.write(as_json_line(scored_row(row, entry, paid[number], advantage, task.name, prompt)))
            seen(row, entry, paid[number])


def scored_row(
    row: RolloutRow,
    entry: WorkEntry,
    paid: Payment,
    advantage: float | None,
    task: str,
    prompt: list[dict[str, str]] | None,
) -> dict[str, Any]:
    """One row of the out file.

    Args:
        row: the row of the rollouts. Its keys are kept; ``prompt_id`` is added if it names its prompt otherwise.
        entry: its verdict.
        paid: its reward.
        advantage: None if its group has none.
        task: name of the task.
        prompt: the messages of its prompt, for a row without any; None to add none.
    """
    verdict = entry.verdict
    has_prompt = prompt is None or "prompt" in row.row or "messages" in row.row
    return {
        **row.row,
        **({"prompt_id": row.prompt_id} if row.row.get("prompt_id") is None else {}),
        **verdict.row,
        **({} if has_prompt else {"prompt": prompt}),
        "task": task,
        "is_correct": verdict.is_correct,
        "validation": verdict.validation,
        "reward": {
            **{"components": verdict.components, **verdict.reward},
            **{"total": paid.total, "copies_in_group": paid.copies},
        },
        "advantage": advantage,
        "derived": {
            "outcome": str(verdict.outcome),
            "cached": entry.cached,
            "completion_hash": completion_hash(row.completion),
            **verdict.row.get("derived", {}),
        },
    }


def _prompts(task: Task, problems: Mapping[str, Problem], style: str) -> Callable[[str], list[dict[str, str]] | None]:
    """The messages of a prompt by its id."""

    @functools.lru_cache(_KEPT_PROMPTS)
    def prompt_of(prompt_id: str) -> list[dict[str, str]] | None:
        if style == NO_PROMPT:
            return None
        messages = generator_messages(task, problems[prompt_id], (), style)
        return [{"role": one.role, "content": one.content} for one in messages]

    return prompt_of
