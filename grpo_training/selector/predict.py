"""Choosing shots for the queries of a file."""

from __future__ import annotations

import json

from engine.storage.append_log import write_file
from grpo_training.selector.choice import choose_shots
from grpo_training.selector.data.beam_file import beam_entry, load_groups
from grpo_training.selector.data.sources import load_embeddings, record_of
from grpo_training.selector.model.checkpoint import load_model
from grpo_training.selector.settings import PredictSettings


def predict(settings: PredictSettings) -> int:
    """Choose shots for the queries of a file, and write them. Returns the exit code."""
    model, info = load_model(settings.checkpoint, settings.model_version)
    table = load_embeddings(record_of(settings, info.embeddings, settings.checkpoint))
    groups = load_groups(settings.test_data, pool_size=settings.pool)
    shots = settings.shots or info.shots
    chosen = choose_shots(model, groups, table, shots, settings.beam_size)
    entries = {
        str(group.query): beam_entry(group.query, ranked, group.pool)
        for group, ranked in zip(groups, chosen, strict=True)
    }
    write_file(settings.output, json.dumps(entries).encode() + b"\n")
    print(f"{len(entries)} queries, {shots} shots each: {settings.output}")
    return 0
