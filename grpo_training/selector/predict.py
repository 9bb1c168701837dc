"""Choosing shots for the queries of a file, and the comparison with other ways of choosing."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import torch

from engine.errors import InputError
from engine.statistics.paired import clustered_mean, paired_difference
from engine.storage.append_log import replace_file
from grpo_training.selector.choice import choose_shots
from grpo_training.selector.data.beam_file import beam_entry, load_groups
from grpo_training.selector.data.embeddings import EmbeddingTable
from grpo_training.selector.data.groups import ShotGroup
from grpo_training.selector.data.sources import load_embeddings, record_of
from grpo_training.selector.model.checkpoint import load_model
from grpo_training.selector.model.pointer import PointerSelector
from grpo_training.selector.settings import PredictSettings
from grpo_training.selector.training.validation import stored_logps


def predict(settings: PredictSettings) -> int:
    """Choose shots for the queries of a file. Returns the exit code."""
    model, info = load_model(settings.checkpoint, settings.model_version)
    table = load_embeddings(record_of(settings, info.embeddings, settings.checkpoint))
    groups = load_groups(settings.test_data, pool_size=settings.pool)
    shots = settings.shots or info.shots
    chosen = choose_shots(model, groups, table, shots, settings.beam_size)
    if settings.output is not None:
        entries = {
            str(group.query): beam_entry(group.query, found, group.pool)
            for group, found in zip(groups, chosen, strict=True)
        }
        settings.output.parent.mkdir(parents=True, exist_ok=True)
        replace_file(settings.output, json.dumps(entries).encode() + b"\n")
        print(f"{len(entries)} queries, {shots} shots each: {settings.output}")
    figures = compare_on_stored(model, groups, table)
    print(f"reward of the stored sequence that each way of choosing prefers, {len(groups)} queries:")
    for name, values in figures.items():
        print(f"  {name:12} {_with_interval(values)}")
    difference = paired_difference(_clusters(figures["selector"]), _clusters(figures["similarity"]))
    if difference.low is not None:
        print(f"selector - similarity: {difference.value:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]")
    return 0


def compare_on_stored(
    model: PointerSelector, groups: Sequence[ShotGroup], table: EmbeddingTable
) -> dict[str, list[float]]:
    """The reward of one stored sequence per query: the most probable, the most similar, one by chance, the best."""
    if not groups:
        raise InputError("No query to compare on")
    logps = stored_logps(model, groups, table)
    figures: dict[str, list[float]] = {"random": [], "similarity": [], "selector": [], "oracle": []}
    for group in groups:
        rewards = [one.reward for one in group.sequences]
        [query] = torch.nn.functional.normalize(table.rows([group.query]), dim=-1)
        similar = [
            float((torch.nn.functional.normalize(table.rows(one.shots), dim=-1) @ query).mean())
            for one in group.sequences
        ]
        figures["random"].append(random.Random(f"random:{group.query}").choice(rewards))  # noqa: S311
        figures["similarity"].append(rewards[max(range(len(rewards)), key=similar.__getitem__)])
        figures["selector"].append(rewards[int(logps[group.query].sum(-1).argmax())])
        figures["oracle"].append(max(rewards))
    return figures


def _clusters(values: Sequence[float]) -> dict[str, list[float]]:
    return {str(number): [value] for number, value in enumerate(values)}


def _with_interval(values: Sequence[float]) -> str:
    mean = clustered_mean(_clusters(values))
    return f"{mean.value:.4f}" + ("" if mean.low is None else f"  [{mean.low:.4f}, {mean.high:.4f}]")
