"""A training from its settings to a run directory."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import torch

from engine.errors import ConfigurationError, InputError
from grpo_training.runs.directory import RunDirectory
from grpo_training.selector.data.beam_file import TaskReward, load_groups
from grpo_training.selector.data.embeddings import EmbeddingTable
from grpo_training.selector.data.groups import ShotGroup, split_groups
from grpo_training.selector.data.sources import digest_of, load_embeddings, record_of
from grpo_training.selector.model.checkpoint import load_model
from grpo_training.selector.model.pointer import PointerSelector, SelectorConfig, count_parameters
from grpo_training.selector.rewards import combine_levels, sequence_reward
from grpo_training.selector.settings import SftSettings, TrainSettings
from grpo_training.selector.training.loop import BEST, BEST_REWARD, TrainingTask, steps_of, train_selector
from grpo_training.selector.training.phases import Phase
from grpo_training.selector.training.state import STATE
from grpo_training.view.training_page import write_page


def train_sft(settings: SftSettings) -> int:
    """Train a new selector on the beams of a beam file. Returns the exit code."""
    settings = RunDirectory(settings.output_dir).resumed(settings)
    record = record_of(settings)
    table = load_embeddings(record)
    groups = _groups(settings, table, TaskReward())
    torch.manual_seed(settings.seed)
    model = PointerSelector(
        SelectorConfig(
            d_model=table.dimensions,
            **{name: getattr(settings, name) for name in _ARCHITECTURE},
        )
    )
    phases = [Phase("sft", settings.epochs, settings.learning_rate)]
    return _train(settings, model, phases, groups, table, record, {})


_ARCHITECTURE = [field.name for field in dataclasses.fields(SelectorConfig) if field.name != "d_model"]


def post_train(settings: TrainSettings) -> int:
    """Post-train a selector on rewards. Returns the exit code."""
    settings = RunDirectory(settings.output_dir).resumed(settings)
    model, info = load_model(settings.sft_ckpt)
    record = record_of(settings, info.embeddings)
    table = load_embeddings(record)
    if table.dimensions != model.config.d_model:
        raise InputError(
            f"{settings.sft_ckpt} needs embeddings of {model.config.d_model} dimensions, these have {table.dimensions}",
            fix="Pass the embeddings that it was trained with.",
        )
    reward = TaskReward(
        settings.reward_mode, settings.hard_weight, settings.soft_weight, settings.rel_weight, settings.keep_fallback
    )
    groups = _with_sequence_rewards(_groups(settings, table, reward), table, settings)
    rce_lr = settings.rce_lr or settings.rce_lr_ratio * _sft_rate(info.phase, info.learning_rate, settings)
    every = [Phase("rce", settings.rce_epochs, rce_lr), Phase("grpo", settings.grpo_epochs, settings.grpo_lr)]
    facts = {"sft_ckpt": hashlib.sha256(settings.sft_ckpt.read_bytes()).hexdigest()[:16]}
    return _train(settings, model, [one for one in every if one.epochs], groups, table, record, facts)


def _sft_rate(phase: str, rate: float, settings: TrainSettings) -> float:
    if phase == "sft" and rate > 0:
        return rate
    if settings.rce_epochs:
        raise InputError(
            f"{settings.sft_ckpt} does not tell the learning rate of SFT",
            why=f"It is of the phase {phase}.",
            fix="Pass --rce-lr.",
        )
    return 1.0  # RCE has no epochs


def _train(
    settings: SftSettings | TrainSettings,
    model: PointerSelector,
    phases: Sequence[Phase],
    groups: Sequence[ShotGroup],
    table: EmbeddingTable,
    record: dict[str, Any],
    facts: dict[str, Any],
) -> int:
    train, held_out = split_groups(groups, settings.train_ratio, settings.seed)
    shots = max(len(one.shots) for group in groups for one in group.sequences)
    task = TrainingTask(model, phases, train, held_out, table, record, shots, _device(settings.device))
    for line in _plan(task, settings):
        print(line)
    if settings.dry_run:
        return 0
    facts |= {"embeddings": digest_of(record), "beam_data": _digest(settings)}
    with RunDirectory(settings.output_dir).open(settings, facts) as manifest:
        if manifest.is_finished:
            print(f"This training is finished: {settings.output_dir}. Pass --fresh to train again.")
            return 0
        done = train_selector(task, settings, settings.output_dir)
        page = write_page(settings.output_dir)
        manifest.finish()
        (settings.output_dir / STATE).unlink(missing_ok=True)
    print(f"trained {done.step} steps")
    for name in (BEST, BEST_REWARD):
        if (settings.output_dir / name).exists():
            print(f"  {name:16} {settings.output_dir / name}")
    print(f"  {'curves':16} {page}")
    return 0


def _groups(settings: SftSettings | TrainSettings, table: EmbeddingTable, reward: TaskReward) -> list[ShotGroup]:
    groups = load_groups(settings.beam_data, beam_size=settings.beam_size, pool_size=settings.pool, reward=reward)
    groups = groups[: settings.max_samples]
    if len(groups) < 2 and settings.train_ratio < 1:
        raise InputError(f"{settings.beam_data} has {len(groups)} queries; a training needs at least 2")
    for group in groups:  # an id without an embedding is named before anything is written
        table.check([group.query, *group.pool])
    return groups


def _with_sequence_rewards(
    groups: Sequence[ShotGroup], table: EmbeddingTable, settings: TrainSettings
) -> list[ShotGroup]:
    """Add the sequence level to the rewards, where it has a weight."""
    if not settings.coherence_weight and not settings.diversity_weight:
        return list(groups)
    result = []
    for group in groups:
        [query] = table.rows([group.query])
        sequences = []
        for one in group.sequences:
            coherence, diversity = sequence_reward(query, table.rows(one.shots))
            levels = [(1.0, one.reward), (settings.coherence_weight, coherence), (settings.diversity_weight, diversity)]
            sequences.append(dataclasses.replace(one, reward=combine_levels(levels)))
        result.append(dataclasses.replace(group, sequences=tuple(sequences)))
    return result


def _plan(task: TrainingTask, settings: SftSettings | TrainSettings) -> list[str]:
    sequences = sum(len(group.sequences) for group in task.train)
    equal = sum(len({one.reward for one in group.sequences}) < 2 for group in task.train)
    pools = [len(group.pool) for group in task.train]
    lines = [
        f"queries           {len(task.train)} to train on, {len(task.held_out)} held out",
        f"sequences         {sequences}, of up to {task.shots} shots, from pools of {min(pools)} to {max(pools)}",
        f"without spread    {equal} of {len(task.train)} queries: all their rewards are equal",
        f"parameters        {count_parameters(task.model):,}",
    ]
    for phase in task.phases:
        steps = steps_of(task, phase, settings.batch_size)
        lines.append(
            f"phase {phase.name:11} {phase.epochs} epochs, {steps} steps, learning rate {phase.learning_rate:g}"
        )
    return lines


def _digest(settings: SftSettings | TrainSettings) -> str:
    return hashlib.sha256(settings.beam_data.read_bytes()).hexdigest()[:16]


def _device(name: str) -> str:
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigurationError(
            "--device cuda: this machine has no CUDA GPU that torch can use", fix="Use --device cpu."
        )
    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"
