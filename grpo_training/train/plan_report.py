"""The plan of a training, printed before it starts, and what ``--dry-run`` shows beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.records import Problem
from grpo_training.cli.settings import shown_path
from grpo_training.cli.terminal_text import counted
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.offline.plan import plan_steps
from grpo_training.train.processes import number_of_processes, say_once

if TYPE_CHECKING:
    from grpo_training.train.data.training_data import TrainingData

Plan = list[tuple[str, str]]
"""Names and values."""

_NO_TRACES = "no traces: pass --teacher-traces FILE, which python -m grpo_training.generate_teacher_traces writes"


def offline_plan(config: GRPOTrainingConfig, data: TrainingData) -> Plan:
    """The plan of an offline or supervised training."""
    rows = [sample for group in data.groups for sample in group]
    steps = plan_steps([len(group) for group in data.groups], config, number_of_processes())
    lengths = sorted(sample.length for sample in rows)
    tokens = ("tokens per row", f"median {lengths[len(lengths) // 2]}, maximum {lengths[-1]}, total {sum(lengths)}")
    path = ("data", str(config.dataset_path and shown_path(config.dataset_path)))
    if config.mode == "sft":
        training = [("training", f"{len(rows)} chats; held out: {len(data.validation)}")]
    else:
        sources = Counter(sample.ids_source for sample in rows)
        known = sum(sample.old_logps is not None for sample in rows)
        ids = f"{sources['server']} from the server, {sources['retokenized']} from the text; {known} with log-probs"
        training = [
            ("groups", f"{len(data.groups)} for training, {len(data.validation)} held out"),
            ("training", f"{counted(len(data.groups), 'group')}, {len(rows)} replies"),
            ("token ids", ids),
            ("loss", _loss_terms(config, len(data.teacher))),
        ]
    stages = ", ".join(f"{stage} {count}" for stage, count in Counter(step.stage for step in steps).items())
    return [_model(config), path, *training, tokens, *_traces(config), ("steps", f"{len(steps)} ({stages})")]


def online_plan(config: GRPOTrainingConfig, problems: Sequence[Problem], traces: int) -> Plan:
    """The plan of an online training."""
    tasks = Counter(problem.task or "prompts" for problem in problems)
    kinds = ", ".join(f"{name} {count}" for name, count in tasks.items())
    reward = "of the task" if config.reward is None else config.reward
    if config.reward_settings is not None:
        given = ", ".join(f"{name} {value}" for name, value in config.reward_settings.items())
        reward = f"training reward of the task ({given})"
    return [
        _model(config),
        ("problems", f"{len(problems)} of {config.dataset or config.dataset_path} ({kinds})"),
        ("reward", reward),
        ("sampling", f"{config.num_generations} per problem, temperature {config.temperature}, top_p {config.top_p}"),
        ("loss", _loss_terms(config, traces)),
        *_traces(config),
        ("length", f"{config.max_steps} steps" if config.max_steps > 0 else f"{config.num_train_epochs} epochs"),
    ]


def print_plan(plan: Plan, report: str = "") -> None:
    """Print a plan and a report on the data, in the first process of a distributed run only."""
    say_once("\n".join([*(f"{name:16} {value}" for name, value in plan), *([report] if report else [])]))


def say_prompt(prompt: str) -> None:
    """Print the first prompt as the model reads it, in the first process of a distributed run only."""
    say_once(f"\nfirst prompt:\n{prompt}\n")


def _model(config: GRPOTrainingConfig) -> tuple[str, str]:
    weights = f"LoRA of rank {config.lora_r}" if config.use_peft else "all weights"
    return "model", f"{config.model_name_or_path} ({weights}) -> {config.output_dir}"


def _traces(config: GRPOTrainingConfig) -> Plan:
    return [] if config.traces_file is None else [("teacher traces", str(config.traces_file))]


def _loss_terms(config: GRPOTrainingConfig, traces: int) -> str:
    """The terms of the loss with their weights; ``traces`` is the number of teacher traces."""
    warm_up = f"RCE for {config.rce_epochs} epochs, then " if config.rce_epochs and config.mode == "offline" else ""
    terms = [f"{warm_up}{config.grpo_weight:g} {config.loss_type}", f"beta {config.beta:g}"]
    if traces:
        terms.append(f"{config.teacher_sft_weight:g} teacher-SFT ({traces} traces)")
    elif "teacher_sft_weight" in config.model_fields_set and config.teacher_sft_weight > 0:
        terms.append(f"{config.teacher_sft_weight:g} teacher-SFT without effect ({_NO_TRACES})")
    if config.self_sft_weight:
        terms.append(f"{config.self_sft_weight:g} self-SFT")
    return ", ".join(terms)
