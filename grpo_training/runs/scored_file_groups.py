"""Files of ``score_rollouts`` as groups of rollouts, so that what reads a cache reads them too."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engine.errors import InputError, MissingInputError, first_line
from engine.records import FORMAT, Completion, Outcome, Rollout, RolloutGroup, Sampling, SamplingPolicy
from engine.statistics.groups import group_stats
from engine.storage.lines import LineReader, encode_line
from engine.task import completion_of_row

SCORED = "scored"
"""The role of groups that another program sampled."""
_TAU = 0.05
"""Threshold of the statistics."""


def scored_groups(path: Path) -> list[RolloutGroup]:
    """The groups of a scored file, one for each step and prompt, in the order of their first rows.

    Args:
        path: written by ``python -m grpo_training.score_rollouts``.

    Raises:
        MissingInputError: there is no such file.
        InputError: a row was not scored; names file and line.
    """
    if not path.is_file():
        raise MissingInputError(f"File not found: {path}")
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in LineReader(path).read(to_the_end=True):
        try:
            row = json.loads(line.text)
            key = (json.dumps(row.get("step")), str(row["prompt_id"]))
            row["reward"]["total"], _reply(row)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"{path} is not scored: line {line.number} has no reward of a reply",
                why="A scored row has prompt_id, the reply and reward.total.",
                fix="Run python -m grpo_training.score_rollouts --prompts PROMPTS --rollouts "
                f"{shlex.quote(str(path))} --out SCORED.jsonl and give SCORED.jsonl. The results of a generator are "
                "given as their folder.",
            ) from None
        groups.setdefault(key, []).append(row)
    try:
        return [_group(rows) for rows in groups.values()]
    except (ValidationError, TypeError, AttributeError) as error:
        raise InputError(f"{path} cannot be read as scored rows", why=first_line(error)) from None


def write_groups(path: Path, folder: Path) -> None:
    """Write a scored file as the rollouts of generator 1 into a folder."""
    folder.mkdir(parents=True)
    lines = b"".join(encode_line(group) + b"\n" for group in scored_groups(path))
    (folder / "generator_1_rollouts.jsonl").write_bytes(lines)


def _group(rows: list[dict[str, Any]]) -> RolloutGroup:
    first = rows[0]
    rollouts = [_rollout(number, row) for number, row in enumerate(rows, 1)]
    totals = [rollout.r_total for rollout in rollouts if rollout.r_total is not None]
    meta = _mapping(first.get("meta"))
    temperature = _mapping(meta.get("decode", meta)).get("temperature")
    sampling = Sampling(temperature=temperature) if isinstance(temperature, int | float) else Sampling()
    step = first.get("step")
    return RolloutGroup(
        problem_id=str(first["prompt_id"]),
        problem_text=_text(first),
        ground_truth="",
        rollouts=rollouts,
        timestamp=str(meta.get("created_at", "")),
        format=FORMAT,
        generator_id=SCORED,
        task=str(first.get("task") or ""),
        epoch=step if isinstance(step, int) and step >= 0 else 0,
        policy=SamplingPolicy(sampling=sampling),
        stats=group_stats(totals, tau=_TAU) if len(totals) == len(rollouts) else None,
    )


def _rollout(number: int, row: Mapping[str, Any]) -> Rollout:
    reward = row["reward"]
    components = {
        str(name): value
        for name, value in (reward.get("components") or {}).items()
        if isinstance(value, int | float | None)
    }
    outcome = _mapping(row.get("derived")).get("outcome")
    return Rollout(
        rollout_id=number,
        scaffold=row.get("code") or _reply(row),
        answer=_answer(row),
        is_correct=row.get("is_correct"),
        r_ans=components.pop("r_ans", None),
        r_logic=components.pop("r_logic", None),
        r_graph=components.pop("r_graph", None),
        r_total=reward["total"],
        components=components,
        outcome=Outcome(outcome) if outcome in list(Outcome) else Outcome.OK,
        completion=Completion(text=_reply(row)),
        reward_detail={"reward": reward, "validation": row.get("validation")},
    )


def _reply(row: Mapping[str, Any]) -> str:
    """The reply of a row; its code where it has no other. ``KeyError`` if it has neither."""
    completion = completion_of_row(row)
    return str(row["code"]) if completion is None else completion.text


def _answer(row: Mapping[str, Any]) -> str | None:
    answer = _mapping(row.get("validation")).get("answer")
    return None if answer is None else str(answer)


def _text(row: Mapping[str, Any]) -> str:
    """The last message of the prompt; the id where the row has none."""
    messages = row.get("prompt") or row.get("messages")
    if isinstance(messages, str):
        return messages
    last = (str(message.get("content") or "") for message in reversed(messages or ()) if isinstance(message, Mapping))
    return next(last, "") or str(row["prompt_id"])


def _mapping(value: Any) -> Mapping[str, Any]:
    """A value that should be an object; an empty one in place of anything else."""
    return value if isinstance(value, Mapping) else {}
