"""Mock rollouts for a file of prompts."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.errors import InputError
from engine.tasks.phaser.mock.faults import FAULTS, GOOD, Fault
from engine.tasks.phaser.problems import PromptRow, read_prompt
from engine.tasks.phaser.seeds.programs import feature_of, program_for

DECODE: Mapping[str, Any] = {"temperature": 0.7, "top_p": 0.9, "max_new_tokens": 1800}
"""Sampling parameters that every row names."""

_FORCED_GOOD = 0.7
"""Share of the groups in which one reply is made good."""

_UPDATE_STEP_SHARE = 0.45


def make_rollouts(
    prompts: Sequence[Mapping[str, Any]], *, step: int, num_prompts: int, group_size: int, seed: int, created_at: str
) -> Iterator[dict[str, Any]]:
    """Rows of ``rollouts.jsonl``: ``group_size`` replies to each of ``num_prompts`` prompts.

    Args:
        prompts: rows of a file of prompts.
        step: training step that the rows name.
        num_prompts: number of prompts, chosen at random; all if there are fewer.
        group_size: replies per prompt.
        seed: of the random choices.
        created_at: time that the rows name.

    Raises:
        InputError: a row is no prompt.
    """
    rng = random.Random(seed)  # noqa: S311
    rows = [read_prompt(row, f"prompt {number}") for number, row in enumerate(prompts, 1)]
    if any(not row.id for row in rows):
        raise InputError("Every prompt needs an id")
    rng.shuffle(rows)
    for prompt in rows[:num_prompts]:
        forced = rng.randrange(group_size) if rng.random() < _FORCED_GOOD else None
        for number in range(group_size):
            fault = GOOD if number == forced else _draw(rng, prompt)
            yield {
                "step": step,
                "prompt_id": prompt.id,
                "group_id": number,
                "text": reply_text(prompt, fault, rng),
                "meta": {
                    **DECODE,
                    "created_at": created_at,
                    "decode": dict(DECODE),
                    "quality": fault.name,
                    "variant": number,
                    "expected": {"failed_gates": list(fault.failed_gates), "outcomes": list(fault.outcomes)},
                },
            }


def reply_text(prompt: PromptRow, fault: Fault, rng: random.Random) -> str:
    """A reply with a plan and a program that has the fault."""
    code = fault.change(program_for(prompt, rng)).source()
    steps = ["preload: prepare the textures", "create: build the scene"]
    if rng.random() < _UPDATE_STEP_SHARE:
        steps.append("update: move what moves")
    numbered = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
    requirement = " ".join(prompt.task.split())
    plan = f"[PLAN]\nREQ: {requirement}\nAPI: {', '.join(prompt.must_use_apis)}\nSTEPS:\n{numbered}\n[/PLAN]\n"
    if not fault.fenced:
        return f"{plan}\nThe program creates the scene and starts the game as planned.\n"
    return f"{plan}```javascript\n{code}```\n"


def _draw(rng: random.Random, prompt: PromptRow) -> Fault:
    demands = any(feature_of(symbol) is not None for symbol in prompt.must_use_apis)
    faults = [fault for fault in (*FAULTS, GOOD) if demands or "must_use_failed" not in fault.failed_gates]
    return rng.choices(faults, weights=[fault.weight for fault in faults])[0]
