"""Answers of an endpoint with shots by chance, by similarity and by selectors, for several numbers of shots."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.errors import InputError
from engine.records import Problem
from engine.statistics.paired import clustered_share, paired_difference
from engine.storage.append_log import write_file
from grpo_training.selector.asking.answers import ask_with_shots, score
from grpo_training.selector.choice import choose_shots
from grpo_training.selector.data.embeddings import EmbeddingTable
from grpo_training.selector.data.groups import ShotGroup
from grpo_training.selector.data.images import checked_images
from grpo_training.selector.data.items import load_items
from grpo_training.selector.data.prompts import ShotPrompts
from grpo_training.selector.data.sources import embed_as
from grpo_training.selector.model.checkpoint import load_model
from grpo_training.selector.model.pointer import PointerSelector
from grpo_training.selector.settings import InferSettings

_BEAM = 5


@dataclass
class _Way:
    """A way of choosing with a number of shots.

    Args:
        shots: for each query the ids of its shots, in the order of the prompt.
        choosing_s: how long the choice took, in seconds.
        accuracy: of each query, by its id.
    """

    shots: list[list[int]]
    choosing_s: float
    accuracy: dict[str, list[float]] = field(default_factory=dict)


def infer(settings: InferSettings) -> int:
    """Ask and score; print and write the figures. Returns the exit code. Stored replies are used again.

    Args:
        settings: of the command.

    Raises:
        ScaffoldError: bad input, or an endpoint that refuses or does not answer.
    """
    manager = settings.load_endpoints()
    manager.endpoint(settings.role)
    shots = load_items(settings.shots_dataset)
    queries = load_items(settings.dataset, settings.max_problems)
    images = checked_images(settings, shots, settings.shots_dataset)
    images += checked_images(settings, queries, settings.dataset)
    last, version = settings.checkpoint[-1], settings.model_version
    loaded = {path: load_model(path, version if path == last else None) for path in settings.checkpoint}
    records = [info.embeddings for _, info in loaded.values()]
    if any(record.get("parts") != records[0].get("parts") for record in records):
        raise InputError("The checkpoints were trained on different embeddings", fix="Compare them one by one.")
    is_plain = len({path.name for path in loaded}) == len(loaded)
    names = ["selector"] if len(loaded) == 1 else [f"selector {path.name if is_plain else path}" for path in loaded]
    selectors = {name: model for name, (model, _) in zip(names, loaded.values(), strict=True)}
    table = embed_as(records[0], str(settings.checkpoint[0]), [*shots, *queries], images)
    same = _rows_of_queries(shots, queries)
    chosen = {count: _ways(settings, selectors, table, len(shots), same, count) for count in settings.shot_nums}
    ways = [way for by_way in chosen.values() for way in by_way.values()]
    asked = [(len(shots) + number, ids) for way in ways for number, ids in enumerate(way.shots)]
    prompts = ShotPrompts([*shots, *queries], images)
    replies = iter(asyncio.run(ask_with_shots(settings, manager, prompts, asked)))
    for way in ways:
        way.accuracy = {query.id: [score(query, next(replies))] for query in queries}
    metrics, lines = {}, []
    first, *later = selectors
    for count, by_way in chosen.items():
        for name, way in by_way.items():
            against = ["similarity", *([first] if name in later else ())]
            figures = _figures(way, {other: by_way[other] for other in against}, len(queries))
            metrics[f"{name}: shot_num={count}"] = figures
            lines.append(f"{count} shots, {name:10} {_shown(figures, against)}")
    write_file(settings.output, json.dumps(metrics, indent=2).encode() + b"\n")
    print(*lines, sep="\n")
    if same:
        print(f"{len(same)} queries are also among the shots; none was a shot of itself.")
    print(f"{len(queries)} queries: {settings.output}")
    return 0


def _rows_of_queries(shots: Sequence[Problem], queries: Sequence[Problem]) -> dict[int, int]:
    """Query -> its own row among the shots, by id and text: with its answer in the prompt it would be no test."""
    row_of = {(shot.id, shot.text): number for number, shot in enumerate(shots)}
    keys = ((query.id, query.text) for query in queries)
    return {number: row_of[key] for number, key in enumerate(keys) if key in row_of}


def _figures(way: _Way, against: Mapping[str, _Way], queries: int) -> dict[str, Any]:
    mean = clustered_share(way.accuracy)
    figures: dict[str, Any] = {"accuracy": _percent(mean.value), "low": _percent(mean.low), "high": _percent(mean.high)}
    for name, other in against.items():
        gain = paired_difference(way.accuracy, other.accuracy)
        key = _key(name)
        figures |= {key: _percent(gain.value), f"{key}_low": _percent(gain.low), f"{key}_high": _percent(gain.high)}
    return figures | {"choosing_ms_per_query": round(1000 * way.choosing_s / queries, 2)}


def _percent(value: float | None) -> float | None:
    return None if value is None else round(100 * value, 2)


def _key(name: str) -> str:
    """The key of the difference to a way of choosing."""
    return f"minus_{name.replace(' ', '_')}"


def _shown(figures: Mapping[str, Any], names: Sequence[str]) -> str:
    texts = [f"{figures['accuracy']:5.1f} %"]
    for name in names:
        gain, low, high = (figures[f"{_key(name)}{end}"] for end in ("", "_low", "_high"))
        interval = "" if low is None else f" [{low:+z.1f}, {high:+z.1f}]"
        texts.append(f"{gain:+z.1f}{interval} against {name}")
    texts.append(f"{figures['choosing_ms_per_query']:.1f} ms per query to choose")
    return "  ".join(texts)


def _ways(
    settings: InferSettings,
    selectors: Mapping[str, PointerSelector],
    table: EmbeddingTable,
    shots: int,
    same: Mapping[int, int],
    count: int,
) -> dict[str, _Way]:
    """The shots of each way of choosing. ``same`` has the queries that are shots too, which no pool of theirs has.

    Raises:
        InputError: there are fewer shots than asked for.
    """
    if count > min(settings.pool, shots - bool(same)):
        raise InputError(f"{count} shots are asked for; {settings.shots_dataset} has {shots}, --pool {settings.pool}")
    began = time.monotonic()
    pools = []
    for number, row in enumerate(table.rows(range(shots, len(table)))):
        ids = [shot for shot in range(shots) if shot != same.get(number)]
        drawn = random.Random(f"pool:{settings.seed}:{number}").sample(ids, min(settings.pool, len(ids)))  # noqa: S311
        pools.append(table.nearest(row, ids if settings.sampler == "near" else drawn, settings.pool))
    pooling_s = time.monotonic() - began
    groups = [ShotGroup(shots + number, tuple(pool), ()) for number, pool in enumerate(pools)]
    rng = random.Random(f"{settings.seed}:{count}")  # noqa: S311 - not for cryptography
    ways = {
        "random": _Way([rng.sample(pool, count) for pool in pools], pooling_s),
        "similarity": _Way([pool[:count] for pool in pools], pooling_s),
    }
    for name, model in selectors.items():
        began = time.monotonic()
        sequences = choose_shots(model, groups, table, count, _BEAM)
        ways[name] = _Way([ranked[0][0] for ranked in sequences], pooling_s + time.monotonic() - began)
    return ways
