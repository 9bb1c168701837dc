"""Decisions as training data: chats for the form of a reply."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from agents.generator import generator_messages
from engine.errors import InputError
from engine.storage.append_log import replace_file
from engine.tasks.traffic.rows import TrafficRow, dataset_files, read_rows
from engine.tasks.traffic.task import TASK
from grpo_training.traffic.settings import SftSettings

_DECISIONS = ("yes", "no")


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
    """Write ``sft_dataset.jsonl``. Returns the exit code.

    Raises:
        InputError: a row is not of this kind, or there is none.
    """
    rows = [row for path in dataset_files(settings.dataset) for row in read_rows(path)]
    if not rows:
        raise InputError(
            f"{settings.dataset} has no rows", fix="Generate some: python -m grpo_training.traffic generate --all"
        )
    problems = [TASK.problem_from_row(row.model_dump(mode="json"), row.id) for row in rows]
    prompts = [generator_messages(TASK, problem, (), settings.prompts) for problem in problems]
    messages = [[message.model_dump() for message in prompt] for prompt in prompts]
    examples = sft_examples(rows, messages, settings.sample_size, settings.seed)
    settings.output_dir.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(example, ensure_ascii=False) + "\n" for example in examples)
    replace_file(settings.output_dir / "sft_dataset.jsonl", lines.encode())
    print(f"{len(examples)} examples in {settings.output_dir}/sft_dataset.jsonl")
    return 0
