"""Examples for the form of an answer. The decisions are random: they teach the form and no policy."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from engine.tasks.traffic.rows import TrafficRow


def sft_examples(
    rows: Sequence[TrafficRow], messages: Sequence[Sequence[dict[str, str]]], sample_size: int, seed: int
) -> list[dict[str, Any]]:
    """Chats that end with a decision in the strict form.

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
    decisions = [("yes", "no")[number % 2] for number in range(len(chosen))]
    rng.shuffle(decisions)
    return [
        {
            "id": rows[index].id,
            "scenario": rows[index].scenario,
            "messages": [*messages[index], {"role": "assistant", "content": f'{{"extend": "{decision}"}}'}],
        }
        for index, decision in zip(chosen, decisions, strict=True)
    ]
