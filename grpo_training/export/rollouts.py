"""Writes the rollouts of a cache in the formats of TRL and ``score_rollouts``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from engine.errors import InputError
from engine.records import RolloutGroup
from engine.storage.append_log import replacement
from grpo_training.export.trl_rows import preference, prompt_completion, unpaired_preference
from grpo_training.runs.stored_answers import stored_answers
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.rollout_data import each_group
from grpo_training.train.data.samples import DropReport, TrainingGroup
from grpo_training.train.data.trl_datasets import Row, prompt_only


def export(arguments: argparse.Namespace) -> int:
    """Write the file; the exit code.

    Raises:
        MissingInputError: there is no cache.
        InputError: it has nothing to write, or the output has another suffix than its format.
    """
    output: Path = arguments.output
    if output.suffix != ".jsonl":
        raise InputError(f"--output: expected a name that ends in .jsonl, got {output.name!r}")
    output.parent.mkdir(parents=True, exist_ok=True)
    with replacement(output) as stream:
        count = 0
        for row in _sampled_rows(arguments) if arguments.to == "rollouts" else _trl_rows(arguments):
            stream.write(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            count += 1
        if not count:
            raise InputError(
                f"Nothing in {arguments.cache} fits {arguments.to}",
                why="A preference needs replies with different rewards; trl-sft one of at least --min-reward.",
            )
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


def _sampled_rows(arguments: argparse.Namespace) -> Iterator[Row]:
    """The replies as ``score_rollouts`` reads them; a rollout without a completion has none."""
    stored = stored_answers(arguments.cache, arguments.role)
    for group in (record for answers in stored for record in answers.records if isinstance(record, RolloutGroup)):
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
