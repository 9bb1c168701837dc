"""A training from its settings to a run directory."""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from engine.errors import InputError
from grpo_training.runs.training_run import TrainingRun
from grpo_training.selector.data.beam_file import load_groups
from grpo_training.selector.data.embeddings import EmbeddingTable
from grpo_training.selector.data.groups import ShotGroup, split_groups
from grpo_training.selector.data.sources import digest_of, load_embeddings, record_of
from grpo_training.selector.model.checkpoint import load_model
from grpo_training.selector.model.pointer import PointerSelector, SelectorConfig
from grpo_training.selector.rewards import sequence_reward
from grpo_training.selector.settings import SftSettings, TrainSettings
from grpo_training.selector.training.loop import BEST, TrainingTask, steps_of, train_selector
from grpo_training.selector.training.phases import Phase
from grpo_training.selector.training.state import STATE
from grpo_training.view.training_page import write_page


def train_sft(settings: SftSettings) -> int:
    """Train a new selector on the beams of a beam file. Returns the exit code."""
    settings = TrainingRun(settings.output_dir).resumed(settings)
    groups, table, record = _data(settings, {})
    torch.manual_seed(settings.seed)
    model = PointerSelector(SelectorConfig(table.dimensions, settings.hidden_dim, settings.dropout))
    phases = [Phase("sft", settings.epochs, settings.learning_rate)]
    split = split_groups(groups, settings.train_ratio, settings.seed)
    return _train(settings, TrainingTask(model, phases, *split, table, record, settings.learning_rate), {})


def post_train(settings: TrainSettings) -> int:
    """Post-train a selector on rewards. Returns the exit code."""
    settings = TrainingRun(settings.output_dir).resumed(settings)
    model, info = load_model(settings.sft_ckpt)
    groups, table, record = _data(settings, info.embeddings)
    if table.dimensions != model.config.d_model:
        raise InputError(
            f"{settings.sft_ckpt} needs embeddings of {model.config.d_model} dimensions, these have {table.dimensions}",
            fix="Pass the embeddings that it was trained with.",
        )
    groups = _with_sequence_rewards(groups, table, settings)
    rce_lr = settings.rce_lr_ratio * info.sft_learning_rate
    phases = [Phase("rce", settings.rce_epochs, rce_lr), Phase("grpo", settings.grpo_epochs, settings.grpo_lr)]
    facts = {"sft_ckpt": hashlib.sha256(settings.sft_ckpt.read_bytes()).hexdigest()[:16]}
    phases = [phase for phase in phases if phase.epochs]
    split = split_groups(groups, settings.train_ratio, settings.seed)
    return _train(settings, TrainingTask(model, phases, *split, table, record, info.sft_learning_rate), facts)


def _train(settings: SftSettings | TrainSettings, task: TrainingTask, facts: dict[str, Any]) -> int:
    equal = sum(len({sequence.reward for sequence in group.sequences}) < 2 for group in task.train)
    print(f"queries           {len(task.train)} to train on, {len(task.held_out)} held out")
    print(f"without spread    {equal} of {len(task.train)} queries: all their rewards are equal")
    for phase in task.phases:
        steps = steps_of(task, phase, settings.batch_size)
        print(f"phase {phase.name:11} {phase.epochs} epochs, {steps} steps, learning rate {phase.learning_rate:g}")
    if settings.dry_run:
        _try_out(task, settings)
        return 0
    beam_data = hashlib.sha256(settings.beam_data.read_bytes()).hexdigest()[:16]
    facts |= {"embeddings": digest_of(task.embeddings), "beam_data": beam_data}
    with TrainingRun(settings.output_dir).open(settings, facts) as manifest:
        if manifest.finished:
            print(f"This training is finished: {settings.output_dir}. Pass --fresh to train again.")
            return 0
        done = train_selector(task, settings, settings.output_dir)
        page = write_page(settings.output_dir)
        manifest.finish()
        (settings.output_dir / STATE).unlink(missing_ok=True)
    print(f"trained {done.step} steps")
    print(f"  {BEST:16} {settings.output_dir / BEST}")
    print(f"  {'curves':16} {page}")
    return 0


def _try_out(task: TrainingTask, settings: SftSettings | TrainSettings) -> None:
    """One optimizer step of each phase, in a folder that is deleted."""
    small = dataclasses.replace(
        task,
        phases=[dataclasses.replace(phase, epochs=1) for phase in task.phases],
        train=task.train[: settings.batch_size],
        held_out=task.held_out[: settings.batch_size],
    )
    with tempfile.TemporaryDirectory() as folder:
        train_selector(small, settings, Path(folder))
    print(f"One step of each phase was made and dropped; nothing was written to {settings.output_dir}.")


def _data(
    settings: SftSettings | TrainSettings, embeddings: Mapping[str, Any]
) -> tuple[list[ShotGroup], EmbeddingTable, dict[str, Any]]:
    """The queries that the settings name, their embeddings, and what a checkpoint records of these.

    Args:
        settings: of the training.
        embeddings: the record of the checkpoint.
    """
    path = settings.beam_data
    record = record_of(settings, embeddings, getattr(settings, "sft_ckpt", None))
    groups = load_groups(path, beam_size=settings.beam_size, pool_size=settings.pool)
    groups = groups[: settings.max_samples]
    if len(groups) < 2 and settings.train_ratio < 1:
        raise InputError(f"{path} has {len(groups)} queries; a training needs at least 2")
    table = load_embeddings(record)
    for group in groups:  # an id without an embedding is named before anything is written
        table.check([group.query, *group.pool])
    return groups, table, record


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
        for sequence in group.sequences:
            coherence, diversity = sequence_reward(query, table.rows(sequence.shots))
            added = settings.coherence_weight * coherence + settings.diversity_weight * diversity
            sequences.append(dataclasses.replace(sequence, reward=sequence.reward + added))
        result.append(dataclasses.replace(group, sequences=tuple(sequences)))
    return result
