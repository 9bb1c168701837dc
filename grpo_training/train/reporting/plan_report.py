"""The plan of a training as lines of text, printed before it starts."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.records import Problem
from grpo_training.cli.settings import shown_path
from grpo_training.cli.terminal_text import say
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.samples import Sample
from grpo_training.train.offline.plan import plan_steps
from grpo_training.train.processes import is_first_process, number_of_processes

if TYPE_CHECKING:
    from grpo_training.train.data.training_data import TrainingData

Plan = list[tuple[str, str]]
"""Names and values."""


def offline_plan(config: GRPOTrainingConfig, data: TrainingData) -> Plan:
    """The plan of an offline training."""
    rows = [sample for group in data.groups for sample in group]
    steps = plan_steps([len(group) for group in data.groups], config, number_of_processes())
    stages = Counter(step.stage for step in steps)
    lengths = sorted(sample.length for sample in rows)
    sources = Counter(sample.ids_source for sample in rows)
    known = sum(sample.old_logps is not None for sample in rows)
    return [
        ("model", f"{config.model_name_or_path} ({_trained_part(config)})"),
        ("data", f"{_data(config)} (experiences: {config.experiences}, prompts: {config.prompts or 'as sent'})"),
        ("training", f"{len(data.groups)} groups, {len(rows)} replies; held out: {len(data.validation)} groups"),
        ("rewards", f"mean {statistics.fmean(row.reward for row in rows):.3f}, {_verdicts(rows)}"),
        ("tokens per row", f"median {lengths[len(lengths) // 2]}, maximum {lengths[-1]}, total {sum(lengths)}"),
        (
            "token ids",
            f"{sources['server']} from the server, {sources['retokenized']} from the text; {known} with log-probs",
        ),
        ("loss", _loss_terms(config, len(data.teacher))),
        ("steps", f"{len(steps)} ({', '.join(f'{stage} {count}' for stage, count in stages.items())})"),
        ("run directory", str(config.output_dir)),
    ]


def sft_plan(config: GRPOTrainingConfig, data: TrainingData) -> Plan:
    """The plan of a supervised training."""
    rows = [sample for group in data.groups for sample in group]
    steps = plan_steps([len(group) for group in data.groups], config, number_of_processes())
    lengths = sorted(sample.length for sample in rows)
    labels = sum(len(sample.completion_ids) for sample in rows)
    return [
        ("model", f"{config.model_name_or_path} ({_trained_part(config)})"),
        ("data", _data(config)),
        ("training", f"{len(rows)} chats; held out: {len(data.validation)}"),
        ("tokens per row", f"median {lengths[len(lengths) // 2]}, maximum {lengths[-1]}, total {sum(lengths)}"),
        ("labels", f"{labels} tokens of the last messages; no other token is trained on"),
        ("steps", str(len(steps))),
        ("run directory", str(config.output_dir)),
    ]


def online_plan(config: GRPOTrainingConfig, problems: Sequence[Problem], traces: int | None = None) -> Plan:
    """The plan of an online training."""
    kinds = ", ".join(
        f"{name} {count}" for name, count in Counter(problem.task or "prompts" for problem in problems).items()
    )
    return [
        ("model", f"{config.model_name_or_path} ({_trained_part(config)})"),
        ("problems", f"{len(problems)} of {config.dataset or config.dataset_path} ({kinds})"),
        ("reward", _reward(config)),
        ("sampling", f"{config.num_generations} per problem, temperature {config.temperature}, top_p {config.top_p}"),
        ("loss", _loss_terms(config, traces)),
        ("length", f"{config.max_steps} steps" if config.max_steps > 0 else f"{config.num_train_epochs} epochs"),
        ("run directory", str(config.output_dir)),
    ]


def print_plan(plan: Plan, report: str = "") -> None:
    """Print a plan and a report on the data, in the first process of a distributed run only."""
    if not is_first_process():
        return
    for name, value in plan:
        say(f"{name:16} {value}")
    if report:
        say(report)


def _reward(config: GRPOTrainingConfig) -> str:
    if config.reward_settings is not None:
        given = ", ".join(f"{name} {value}" for name, value in config.reward_settings.items())
        return f"training reward of the task ({given})"
    if config.reward is None:
        return "of the task"
    if config.reward_weight == 1:
        return config.reward
    return f"{config.reward_weight:g} {config.reward}, {1 - config.reward_weight:g} of the task"


def _data(config: GRPOTrainingConfig) -> str:
    return str(config.dataset_path and shown_path(config.dataset_path))


def _trained_part(config: GRPOTrainingConfig) -> str:
    return f"LoRA of rank {config.lora_r}" if config.use_peft else "all weights"


def _verdicts(rows: Sequence[Sample]) -> str:
    verdicts = [row.is_correct for row in rows if row.is_correct is not None]
    return f"{sum(verdicts)} of {len(verdicts)} correct" if verdicts else "correctness unknown"


def _loss_terms(config: GRPOTrainingConfig, traces: int | None) -> str:
    """The terms of the loss with their weights.

    Args:
        config: the training configuration.
        traces: number of teacher traces; None: not known yet.
    """
    warm_up = f"RCE for {config.rce_epochs} epochs, then " if config.rce_epochs else ""
    terms = [f"{warm_up}{config.grpo_weight:g} {config.loss_type}", f"beta {config.beta:g}"]
    if config.teacher_traces is not None and traces != 0:
        count = "" if traces is None else f" ({traces} traces)"
        terms.append(f"{config.teacher_sft_weight:g} teacher-SFT{count}")
    if config.self_sft_weight:
        terms.append(f"{config.self_sft_weight:g} self-SFT")
    return ", ".join(terms)
