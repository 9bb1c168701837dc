"""The scored rows: the rows of the rollouts with their verdicts, rewards and advantages."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agents.generator import generator_messages
from engine.abilities import ScoresForeignRows
from engine.records import Problem
from engine.storage.append_log import replacement
from engine.task import Task
from grpo_training.rl_math.advantages import GroupAdvantages, group_advantages
from grpo_training.score_rollouts.rollout_rows import RolloutRow, Survey, good_rows
from grpo_training.score_rollouts.settings import ScoreSettings
from grpo_training.score_rollouts.verdict_file import VerdictEntry, VerdictFile
from grpo_training.score_rollouts.verdicts import completion_hash

NO_PROMPT = "none"
"""The prompt style that leaves the field ``prompt`` out."""

_KEPT_PROMPTS = 256  # rendered prompts in memory; the rows of a prompt are mostly neighbours


@dataclass(frozen=True)
class Scores:
    """The rewards and advantages of all rows.

    Args:
        totals: the reward of each row, after the task's factor for near copies; None if it could not be verified.
        copies: the near copies of each reply in its group, itself included.
        groups: the advantages by the number of the group, in the order of the rows.
    """

    totals: list[float | None]
    copies: list[int]
    groups: list[GroupAdvantages]

    @classmethod
    def of(cls, survey: Survey, verdicts: VerdictFile, task: Task, settings: ScoreSettings) -> Scores:
        """The scores of a verified run. Near copies are paid alike, so that their order does not matter."""
        found = [verdicts.of_row(number).verdict for number in range(survey.rows)]
        hashes = [(group, verdict.copy_hash) for group, verdict in zip(survey.group_of, found, strict=True)]
        counts = Counter(hashes)
        copies = [counts[group_and_hash] if group_and_hash[1] else 1 for group_and_hash in hashes]
        factor = task.copy_factor if isinstance(task, ScoresForeignRows) else lambda count: 1.0
        totals = [
            None if verdict.total is None else verdict.total * factor(count)
            for verdict, count in zip(found, copies, strict=True)
        ]
        of_group: list[list[float | None]] = [[] for _ in survey.groups]
        for group, total in zip(survey.group_of, totals, strict=True):
            of_group[group].append(total)
        return cls(totals, copies, [group_advantages(rewards, norm=settings.adv_norm) for rewards in of_group])

    def advantages(self, survey: Survey) -> Iterator[float | None]:
        """The advantage of each row in order; None where its group has none."""
        values = [iter(group.values or ()) for group in self.groups]
        return (next(values[group], None) for group in survey.group_of)


def write_scored(
    settings: ScoreSettings,
    task: Task,
    problems: Mapping[str, Problem],
    survey: Survey,
    scores: Scores,
    verdicts: VerdictFile,
) -> None:
    """Write the out file. It appears under its name when it is complete."""
    prompt_of = _prompts(task, problems, settings.prompt_style)
    with replacement(settings.out) as stream:
        rows = zip(good_rows(settings.rollouts, task, problems), scores.advantages(survey), strict=True)
        for number, (row, advantage) in enumerate(rows):
            reward = {"total": scores.totals[number], "copies_in_group": scores.copies[number]}
            facts = {"task": task.name, "advantage": advantage, "prompt": prompt_of(row.prompt_id)}
            line = scored_row(row, verdicts.of_row(number), reward, facts)
            content = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
            stream.write(content.encode(errors="replace") + b"\n")  # a lone surrogate becomes ?


def scored_row(
    row: RolloutRow, entry: VerdictEntry, reward: Mapping[str, Any], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """One row of the out file.

    Args:
        row: the row of the rollouts. Its keys are kept; ``prompt_id`` is added if it names its prompt otherwise.
        entry: its verdict.
        reward: ``total`` and ``copies_in_group``.
        facts: ``task``, ``advantage`` and ``prompt``: the messages for a row without any, None to add none.
    """
    verdict = entry.verdict
    has_prompt = facts["prompt"] is None or "prompt" in row.row or "messages" in row.row
    return {
        **row.row,
        **({"prompt_id": row.prompt_id} if row.row.get("prompt_id") is None else {}),
        **verdict.row,
        **({} if has_prompt else {"prompt": facts["prompt"]}),
        "task": facts["task"],
        "is_correct": verdict.is_correct,
        "validation": verdict.validation,
        "reward": {"components": verdict.components, **verdict.reward, **reward},
        "advantage": facts["advantage"],
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
        return [{"role": message.role, "content": message.content} for message in messages]

    return prompt_of
