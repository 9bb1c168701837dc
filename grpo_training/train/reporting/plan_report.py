"""The plan of a training as lines of text, printed before it starts, and what ``--dry-run`` shows beside it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.records import Problem
from grpo_training.cli.settings import shown_path
from grpo_training.cli.terminal_text import counted, say
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.samples import Sample
from grpo_training.train.offline.plan import plan_steps
from grpo_training.train.processes import is_first_process, number_of_processes

if TYPE_CHECKING:
    from grpo_training.train.data.training_data import TrainingData

Plan = list[tuple[str, str]]
"""Names and values."""

_UNLIKE_TRL = {
    "self_sft_weight": "the best own replies are imitated too; TRL has no such term",
    "beta": "the loss has a KL term to the initial model; the default of TRL is 0",
}
"""Terms of the loss that are on by default here and not in TRL -> what they do."""
_NO_TRACES = "no traces: pass --teacher-traces FILE, which python -m grpo_training.generate_teacher_traces writes"
_SHOWN = 6000
"""Characters of a prompt that are shown, from both ends."""


def offline_plan(config: GRPOTrainingConfig, data: TrainingData) -> Plan:
    """The plan of an offline or supervised training."""
    rows = [sample for group in data.groups for sample in group]
    steps = plan_steps([len(group) for group in data.groups], config, number_of_processes())
    lengths = sorted(sample.length for sample in rows)
    place = str(config.dataset_path and shown_path(config.dataset_path))
    model, directory = ("model", _model(config)), ("run directory", str(config.output_dir))
    tokens = ("tokens per row", f"median {lengths[len(lengths) // 2]}, maximum {lengths[-1]}, total {sum(lengths)}")
    if config.mode == "sft":
        labels = sum(len(sample.completion_ids) for sample in rows)
        return [
            model,
            ("data", place),
            ("training", f"{len(rows)} chats; held out: {len(data.validation)}"),
            tokens,
            ("labels", f"{labels} tokens of the last messages; no other token is trained on"),
            ("steps", str(len(steps))),
            directory,
        ]
    stages = Counter(step.stage for step in steps)
    sources = Counter(sample.ids_source for sample in rows)
    known = sum(sample.old_logps is not None for sample in rows)
    return [
        model,
        ("data", f"{place} (experiences: {config.experiences}, prompts: {config.prompts or 'as sent'})"),
        ("groups", _groups(data)),
        ("training", f"{counted(len(data.groups), 'group')}, {len(rows)} replies"),
        ("rewards", f"mean {statistics.fmean(row.reward for row in rows):.3f}, {_verdicts(rows)}"),
        tokens,
        (
            "token ids",
            f"{sources['server']} from the server, {sources['retokenized']} from the text; {known} with log-probs",
        ),
        ("loss", _loss_terms(config, len(data.teacher))),
        *_traces(config),
        ("steps", f"{len(steps)} ({', '.join(f'{stage} {count}' for stage, count in stages.items())})"),
        directory,
    ]


def online_plan(config: GRPOTrainingConfig, problems: Sequence[Problem], traces: int | None = None) -> Plan:
    """The plan of an online training."""
    kinds = ", ".join(
        f"{name} {count}" for name, count in Counter(problem.task or "prompts" for problem in problems).items()
    )
    return [
        ("model", _model(config)),
        ("problems", f"{len(problems)} of {config.dataset or config.dataset_path} ({kinds})"),
        ("reward", _reward(config)),
        ("sampling", f"{config.num_generations} per problem, temperature {config.temperature}, top_p {config.top_p}"),
        ("loss", _loss_terms(config, traces)),
        *_traces(config),
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


def print_dry_run(config: GRPOTrainingConfig, prompt: str) -> None:
    """Print the first prompt as the model reads it, and terms of the loss that a user of TRL may not expect.

    Args:
        config: the training configuration. Terms that it names are left out.
        prompt: in the chat template.
    """
    if not is_first_process():
        return
    cut = len(prompt) - _SHOWN
    shown = prompt if cut <= 0 else f"{prompt[: _SHOWN // 2]}\n... ({cut} characters) ...\n{prompt[-_SHOWN // 2 :]}"
    say(f"\nfirst prompt:\n{shown}\n")
    for name, meaning in _UNLIKE_TRL.items() if config.mode != "sft" else ():
        value = getattr(config, name)
        if value and name not in config.model_fields_set:
            say(f"default: {name} {value:g}: {meaning}. --{name.replace('_', '-')} 0 turns it off.")


def _groups(data: TrainingData) -> str:
    """The number of groups and what becomes of them; a stored group may be more than one, and the numbers add up."""
    left_out = data.report.dropped_groups
    total, stored = len(data.groups) + len(data.validation) + left_out, data.report.stored_groups
    of_stored = "" if total == stored else f" of {stored} stored ones, as one with two prompts counts as two"
    return f"{total}{of_stored}: {len(data.groups)} for training, {len(data.validation)} held out, {left_out} left out"


def _reward(config: GRPOTrainingConfig) -> str:
    if config.reward_settings is not None:
        given = ", ".join(f"{name} {value}" for name, value in config.reward_settings.items())
        return f"training reward of the task ({given})"
    if config.reward is None:
        return "of the task"
    if config.reward_weight == 1:
        return config.reward
    return f"{config.reward_weight:g} {config.reward}, {1 - config.reward_weight:g} of the task"


def _model(config: GRPOTrainingConfig) -> str:
    part = f"LoRA of rank {config.lora_r}" if config.use_peft else "all weights"
    return f"{config.model_name_or_path} ({part})"


def _verdicts(rows: Sequence[Sample]) -> str:
    verdicts = [row.is_correct for row in rows if row.is_correct is not None]
    return f"{sum(verdicts)} of {len(verdicts)} correct" if verdicts else "correctness unknown"


def _traces(config: GRPOTrainingConfig) -> Plan:
    is_on = config.teacher_traces is not None and config.teacher_sft_weight > 0
    return [("teacher traces", str(config.teacher_traces))] if is_on else []


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
    elif config.weighs_teacher:
        terms.append(f"{config.teacher_sft_weight:g} teacher-SFT without effect ({_NO_TRACES})")
    if config.self_sft_weight:
        terms.append(f"{config.self_sft_weight:g} self-SFT")
    return ", ".join(terms)
