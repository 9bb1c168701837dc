"""Writes the rollouts of a cache in the formats of TRL, ``score_rollouts`` and inspect_ai."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.records import Rollout, RolloutGroup
from engine.storage.append_log import replace_file, replacement
from grpo_training.export.inspect_log import inspect_log
from grpo_training.export.trl_rows import preference, prompt_completion, unpaired_preference
from grpo_training.runs.folder import load_tasks_of
from grpo_training.runs.stored_answers import stored_answers
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.rollout_data import built_prompt, each_group, is_as_sent
from grpo_training.train.data.samples import DropReport, TrainingGroup
from grpo_training.train.data.trl_datasets import prompt_only

Row = dict[str, Any]


def export(arguments: argparse.Namespace) -> int:
    """Write the file; the exit code.

    Raises:
        MissingInputError: there is no cache.
        InputError: it has nothing to write, or the output has another suffix than its format.
    """
    output: Path = arguments.output
    suffixes = (".json", "") if arguments.to == "inspect" else (".jsonl",)
    if output.suffix not in suffixes:
        raise InputError(f"--output: expected a name that ends in {suffixes[0]}, got {output.name!r}")
    if arguments.to == "inspect":
        output, count = _write_inspect(arguments)
    else:
        count = _write_rows(arguments)
    print(f"{count} rows: {output}")
    return 0


def _trl_rows(arguments: argparse.Namespace) -> Iterator[Row]:
    """The rows, one group in memory at a time; after the last one it is printed what was left out."""
    experiences = "strip" if arguments.strip_experiences else "keep"
    reading = {"dataset_path": arguments.cache, "prompts": arguments.prompts, "experiences": experiences}
    settings = GRPOTrainingConfig.model_validate({"model_name_or_path": "none", **reading})
    formats: dict[str, Callable[[TrainingGroup], list[Row]]] = {
        "trl-sft": partial(prompt_completion, min_reward=arguments.min_reward),
        "trl-dpo": preference,
        "trl-kto": unpaired_preference,
        "trl-grpo": prompt_only,
    }
    report = DropReport()
    for group in each_group(settings, report, as_sent=arguments.prompts is None):
        yield from formats[arguments.to](group)
    for reason, count in report.dropped.most_common():  # other remarks, and names of flags, are about a training
        print(f"left out {count:6d}  {reason.partition(' (--')[0]}")


def _groups(arguments: argparse.Namespace) -> Iterator[RolloutGroup]:
    for stored in stored_answers(arguments.cache, arguments.role):
        yield from (record for record in stored.records if isinstance(record, RolloutGroup))


def _prompt(arguments: argparse.Namespace, group: RolloutGroup, rollout: Rollout) -> list[Row] | None:
    """The messages that a rollout answers; None if they are not stored, and the flags ask for no others."""
    with_experiences = not arguments.strip_experiences
    if is_as_sent(group, rollout, arguments.prompts, with_experiences=with_experiences):
        messages = group.prompt_of(rollout)
    else:
        messages = built_prompt(group, arguments.prompts)
    return [message.model_dump() for message in messages] or None


def _sampled_rows(arguments: argparse.Namespace) -> Iterator[Row]:
    """The replies as ``score_rollouts`` reads them; a rollout without a completion has none."""
    for group in _groups(arguments):
        sampling = {} if group.policy is None else group.policy.sampling.model_dump(mode="json", exclude_none=True)
        for index, rollout in enumerate(group.rollouts):
            completion = rollout.completion
            if completion is None:
                continue
            meta = {
                "model": completion.model,
                "generator": group.generator_id,
                "rollout_id": rollout.rollout_id,
                "decode": sampling,
                "finish_reason": completion.finish_reason,
                **({} if completion.reasoning is None else {"reasoning": completion.reasoning}),
            }
            yield {
                "step": group.epoch,
                "prompt_id": group.problem_id,
                "group_id": index,
                "text": completion.text,
                "meta": meta,
            }


def _write_inspect(arguments: argparse.Namespace) -> tuple[Path, int]:
    """Write the log; its path and the number of samples. In a folder it gets a name by which inspect finds logs."""
    by_role: dict[str, list[RolloutGroup]] = {}
    for group in _groups(arguments):
        by_role.setdefault(group.generator_id, []).append(group)
    if len(by_role) != 1:
        raise InputError(
            f"{arguments.cache} holds rollouts of {len(by_role)} generators; an eval log is of one",
            fix=f"Choose one: --role {next(iter(by_role), 'generator_1')}.",
        )
    [(role, groups)] = by_role.items()
    load_tasks_of(arguments.cache, given=arguments.task)
    log = inspect_log(role, groups, partial(_prompt, arguments))
    output: Path = arguments.output
    if not output.suffix:
        output.mkdir(parents=True, exist_ok=True)
        started = re.sub(r"[:.]", "-", log["eval"]["created"])
        output /= f"{started}_{role.replace('_', '-')}_{log['eval']['task_id']}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    replace_file(output, json.dumps(log, ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n")
    return output, len(log["samples"])


def _write_rows(arguments: argparse.Namespace) -> int:
    """Write a file completely, then give it its name; the number of rows. Lines are written one after the other."""
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with replacement(arguments.output) as stream:
        count = 0
        for row in _sampled_rows(arguments) if arguments.to == "rollouts" else _trl_rows(arguments):
            stream.write(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            count += 1
        if not count:
            raise InputError(
                f"Nothing in {arguments.cache} fits {arguments.to}",
                why="A preference needs replies with different rewards; trl-sft one of at least --min-reward.",
            )
        return count
