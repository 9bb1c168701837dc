"""Decisions as training data: prompts, chats for the form, and the stored outcomes as scored rollouts."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from agents.generator import generator_messages, prompt_hash
from engine.records import FORMAT, Completion, Message, Problem, Rollout, RolloutGroup, SamplingPolicy
from engine.reward_evaluator import RewardEvaluator
from engine.statistics.groups import group_stats
from engine.storage.append_log import replace_file
from engine.tasks.traffic.rows import TrafficRow
from engine.tasks.traffic.task import TASK
from engine.tasks.traffic.validation import all_rows
from grpo_training.cli.bar import progress_bar
from grpo_training.cli.terminal_text import counted
from grpo_training.traffic.settings import RolloutsSettings, SftSettings

ENUMERATED = "enumerated"
"""Stands for the model in rollouts that no model sampled."""

ROLLOUTS = "enumerated_rollouts.jsonl"
TAU = 0.05
_DECISIONS = ("yes", "no")


def problem_of(row: TrafficRow) -> Problem:
    """A row as a problem of the task."""
    return TASK.problem_from_row(row.model_dump(mode="json"), row.id)


def prompts_of(rows: Sequence[TrafficRow], style: str) -> list[tuple[Message, ...]]:
    """The prompt of each row, without experiences."""
    return [generator_messages(TASK, problem_of(row), (), style) for row in rows]


def sft_examples(
    rows: Sequence[TrafficRow], messages: Sequence[Sequence[dict[str, str]]], sample_size: int, seed: int
) -> list[dict[str, Any]]:
    """Chats that end with a decision in the strict form. The decisions are random: they teach the form and no policy.

    Args:
        rows: the rows to draw from.
        messages: the prompt of each row, as it is sent to a model.
        sample_size: examples; all rows where there are fewer.
        seed: of the draw and of the decisions; as many "yes" as "no", up to one.

    Returns:
        objects with ``id``, ``scenario`` and ``messages``.
    """
    rng = random.Random(seed)  # noqa: S311 - a sample, no secret
    chosen = rng.sample(range(len(rows)), min(sample_size, len(rows)))
    decisions = [_DECISIONS[number % 2] for number in range(len(chosen))]
    rng.shuffle(decisions)
    return [
        {
            "id": rows[index].id,
            "scenario": rows[index].scenario,
            "messages": [*messages[index], {"role": "assistant", "content": f'{{"extend": "{decision}"}}'}],
        }
        for index, decision in zip(chosen, decisions, strict=True)
    ]


def write_sft_data(settings: SftSettings) -> int:
    """Write ``sft_dataset.json`` and ``sft_dataset.jsonl``. Returns the exit code."""
    rows = all_rows(settings.dataset)
    messages = [[message.model_dump() for message in prompt] for prompt in prompts_of(rows, settings.prompts)]
    examples = sft_examples(rows, messages, settings.sample_size, settings.seed)
    settings.output_dir.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(example, ensure_ascii=False) + "\n" for example in examples)
    replace_file(settings.output_dir / "sft_dataset.jsonl", lines.encode())
    whole = json.dumps(examples, ensure_ascii=False, indent=2) + "\n"
    replace_file(settings.output_dir / "sft_dataset.json", whole.encode())
    print(f"{len(examples)} examples in {settings.output_dir}/sft_dataset.json and .jsonl")
    return 0


def write_rollouts(settings: RolloutsSettings) -> int:
    """Write both decisions of every row as a group of scored rollouts. Returns the exit code."""
    evaluator = RewardEvaluator()
    policy = SamplingPolicy(model=ENUMERATED, prompt_hash=prompt_hash(TASK, settings.prompts))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    rows = all_rows(settings.dataset)
    lines = [
        enumerated_group(problem_of(row), evaluator, policy, now).model_dump_json()
        for row in progress_bar(rows, desc="rows", unit="")
    ]
    settings.output_dir.mkdir(parents=True, exist_ok=True)
    path = settings.output_dir / ROLLOUTS
    replace_file(path, "".join(line + "\n" for line in lines).encode())
    print(f"{counted(len(lines), 'group')} of both decisions in {path}")
    return 0


def enumerated_group(
    problem: Problem, evaluator: RewardEvaluator, policy: SamplingPolicy, timestamp: str
) -> RolloutGroup:
    """Both decisions of a problem in the strict form, scored by the task. No model wrote them."""
    rollouts = [_rollout(number, decision, problem, evaluator) for number, decision in enumerate(_DECISIONS)]
    return RolloutGroup(
        problem_id=problem.id,
        problem_text=problem.text,
        ground_truth=problem.answer,
        rollouts=rollouts,
        timestamp=timestamp,
        format=FORMAT,
        task=TASK.name,
        policy=policy,
        stats=group_stats([rollout.r_total or 0.0 for rollout in rollouts], tau=TAU),
    )


def _rollout(number: int, decision: str, problem: Problem, evaluator: RewardEvaluator) -> Rollout:
    completion = Completion(text=json.dumps({"extend": decision}), model=ENUMERATED, finish_reason="stop")
    candidate = TASK.parse(completion, problem)
    scored = evaluator.score(TASK, problem, candidate)
    detail: dict[str, Any] = {**scored.detail, ENUMERATED: True}
    return Rollout(
        rollout_id=number,
        scaffold=TASK.to_record(candidate),
        answer=scored.answer,
        is_correct=scored.is_correct,
        r_ans=scored.rewards.r_ans,
        r_total=scored.rewards.r_total,
        components=scored.rewards.components,
        outcome=scored.outcome,
        completion=completion,
        answer_source=scored.answer_source,
        stated_answer=candidate.stated_answer,
        reward_detail=detail,
    )
