"""Which responses and teacher traces are trained on, and how rows are cut into micro-batches."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.statistics.groups import group_stats
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.samples import Sample, TrainingResponse

SUCCESSFUL_REWARD = 0.8
"""Least reward of a successful response whose correctness is not known."""


def best_of(group: Sequence[Sample], top_k: int | None) -> list[Sample]:
    """The ``top_k`` responses with the highest reward, the first of equals; None: all, in their order.

    Advantages stay relative to the whole group: among the best responses alone there is hardly any spread.
    """
    if top_k is None:
        return list(group)
    return sorted(group, key=lambda sample: -sample.reward)[:top_k]


def own_successes(group: Sequence[Sample], rows: Sequence[Sample], config: GRPOTrainingConfig) -> list[int]:
    """Indices into ``rows`` of the responses that self-SFT imitates, the best first.

    These are the best ``self_sft_top_k`` distinct responses that are correct, or have a reward of at least
    :data:`SUCCESSFUL_REWARD` where that is not known, and were not truncated. None are taken from a group in which
    every response succeeds, as there is nothing to learn.

    Args:
        group: all responses to the prompt.
        rows: those that the step trains on.
        config: the training configuration.
    """
    if all(succeeds(sample) for sample in group):
        return []
    chosen: dict[tuple[int, ...], int] = {}
    for index in sorted(range(len(rows)), key=lambda index: -rows[index].reward):
        if succeeds(rows[index]) and not rows[index].truncated:
            chosen.setdefault(rows[index].completion_ids, index)
    return list(chosen.values())[: config.self_sft_top_k]


def succeeds(sample: Sample | TrainingResponse) -> bool:
    """Whether a response is correct. A fixed reward would not say so: its scale differs between rewards."""
    return sample.reward >= SUCCESSFUL_REWARD if sample.is_correct is None else sample.is_correct


def teacher_rows(teacher: Sequence[Sample], step: int, count: int, seed: int) -> list[Sample]:
    """The ``count`` teacher traces of a step: every trace in turn, each pass in its own random order."""
    if not teacher:
        return []
    first, last = step * count, (step + 1) * count
    rows: list[Sample] = []
    for number in range(first // len(teacher), (last - 1) // len(teacher) + 1):
        order = list(teacher)
        random.Random(f"{seed}:teacher:{number}").shuffle(order)  # noqa: S311
        rows += order
    skipped = first % len(teacher)
    return rows[skipped : skipped + count]


def with_standard_rewards(group: Sequence[Sample]) -> list[Sample]:
    """The group with z-scores as rewards (0 where all are equal): the scale of the RCE temperatures."""
    scores = group_stats([sample.reward for sample in group], tau=0.0).advantages
    return [replace(sample, reward=score) for sample, score in zip(group, scores, strict=True)]


def cut(rows: Sequence[Sample], config: GRPOTrainingConfig) -> list[list[Sample]]:
    """Micro-batches of at most ``per_device_train_batch_size`` rows, as :func:`cut_places`."""
    return [[rows[index] for index in chosen] for chosen in cut_places(rows, config)]


def cut_places(rows: Sequence[Sample], config: GRPOTrainingConfig) -> list[list[int]]:
    """The places of ``rows`` in micro-batches: rows of a prompt side by side, sorted by the length of their longest."""
    size = config.per_device_train_batch_size
    longest: dict[tuple[int, ...], int] = {}
    for row in rows:
        longest[row.prompt_ids] = max(row.length, longest.get(row.prompt_ids, 0))
    order = sorted(
        range(len(rows)),
        key=lambda index: (longest[rows[index].prompt_ids], rows[index].prompt_ids, rows[index].length),
    )
    return [order[start : start + size] for start in range(0, len(order), size)]


def cut_groups(groups: Sequence[Sequence[Sample]], size: int) -> list[list[Sequence[Sample]]]:
    """Micro-batches of whole groups, sorted by length: at most ``size`` rows, and at least one group."""
    ordered = sorted(groups, key=lambda group: max(sample.length for sample in group))
    sizes = [len(group) for group in ordered]
    return [[ordered[index] for index in chosen] for chosen in pack(range(len(ordered)), sizes, size)]


def pack(order: Sequence[int], sizes: Sequence[int], rows: int) -> Iterator[tuple[int, ...]]:
    """Split ``order`` into runs of indices whose ``sizes`` sum to at most ``rows``; a larger item forms its own run."""
    packed: list[int] = []
    filled = 0
    for index in order:
        if packed and filled + sizes[index] > rows:
            yield tuple(packed)
            packed, filled = [], 0
        packed.append(index)
        filled += sizes[index]
    if packed:
        yield tuple(packed)
