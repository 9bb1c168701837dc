"""Making a reward file: an endpoint answers queries with candidate sequences of shots, and its answers are scored."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from typing import Any

import torch

from engine.api_manager import ApiManager
from engine.errors import InputError
from engine.statistics.paired import clustered_share
from engine.storage.append_log import replace_file
from grpo_training.selector.asking.answers import ask_with_shots, measurements
from grpo_training.selector.asking.settings import RewardsSettings
from grpo_training.selector.choice import choose_shots
from grpo_training.selector.data.beam_file import load_groups
from grpo_training.selector.data.beams import ShotPrompts
from grpo_training.selector.data.embeddings import EmbeddingTable
from grpo_training.selector.data.groups import ShotGroup, make_batch
from grpo_training.selector.data.images import checked_images
from grpo_training.selector.data.items import load_items
from grpo_training.selector.data.sources import load_embeddings, record_of
from grpo_training.selector.model.checkpoint import load_model
from grpo_training.selector.model.decoding import sample_sequences
from grpo_training.selector.model.pointer import PointerSelector
from grpo_training.serve.endpoints import open_client

Candidates = dict[tuple[int, ...], dict[str, Any]]
"""Shots of a sequence -> how it was found, the first way that found it."""


def measure_rewards(settings: RewardsSettings) -> int:
    """Ask, score and write the reward file. Returns the exit code. Stored replies are used again.

    Raises:
        ScaffoldError: bad input, or an endpoint that refuses or does not answer.
    """
    manager = settings.load_endpoints()
    endpoint = manager.endpoint(settings.role)
    problems = load_items(settings.dataset)
    images = checked_images(settings, problems, settings.dataset)
    model, table, shots = _selector(settings)
    groups = _groups(settings, len(problems))
    if shots is None:
        shots = max((len(one.shots) for group in groups for one in group.sequences), default=2)
    shots = settings.shots or shots
    candidates = candidates_of(settings, groups, model, table, shots)
    asked = [(group.query, ids) for group, found in zip(groups, candidates, strict=True) for ids in found]
    print(f"{len(groups)} queries, {len(asked)} sequences of up to {shots} shots", flush=True)
    prompts = ShotPrompts(problems, images, settings.max_image_mb)
    replies = iter(asyncio.run(_ask(settings, manager, prompts, asked)))
    entries: dict[str, Any] = {"_meta": {"vqa_model": endpoint.model, "dataset": settings.dataset}}
    by_method: dict[str, dict[str, list[float]]] = {}
    for group, found in zip(groups, candidates, strict=True):
        problem, place_of = problems[group.query], {shot: place for place, shot in enumerate(group.pool)}
        measured = []
        for ids, how in found.items():
            values = measurements(problem, next(replies))
            places = {"pointer": [place_of[one] for one in ids], "pointer_global": list(ids)}
            measured.append(places | how | values)
            accuracies = by_method.setdefault(how["gen_method"], {}).setdefault(str(group.query), [])
            accuracies.append(values["vqa_acc_score"])
        entries[str(group.query)] = {
            "query": {"query_id": group.query, "question_id": problem.id, "question": problem.text},
            "candidate_pool_ids": list(group.pool),
            "pointer_candidates": measured,
        }
    settings.output.parent.mkdir(parents=True, exist_ok=True)
    replace_file(settings.output, json.dumps(entries, ensure_ascii=False).encode() + b"\n")
    print("mean accuracy of the sequences, by how they were found:")
    for method, clusters in by_method.items():
        mean = clustered_share(clusters)
        interval = "" if mean.low is None or mean.high is None else f"  [{100 * mean.low:.1f}, {100 * mean.high:.1f}]"
        count = sum(map(len, clusters.values()))
        print(f"  {method:10} {100 * mean.value:5.1f} %{interval}  ({count} sequences)")
    spread = sum(
        len({one["vqa_acc_score"] for one in entries[str(group.query)]["pointer_candidates"]}) > 1 for group in groups
    )
    print(f"queries whose sequences differ in accuracy: {spread} of {len(groups)}: {settings.output}")
    return 0


def _selector(settings: RewardsSettings) -> tuple[PointerSelector | None, EmbeddingTable | None, int | None]:
    """The selector, embeddings, and its number of shots; each None if nothing names it."""
    if settings.checkpoint is not None:
        model, info = load_model(settings.checkpoint)
        return model, load_embeddings(record_of(settings, info.embeddings, settings.checkpoint)), info.shots
    if settings.embeddings is None and settings.img_emb is None:
        return None, None, None
    return None, load_embeddings(record_of(settings)), None


def _groups(settings: RewardsSettings, problems: int) -> list[ShotGroup]:
    """Queries with their pools, and the sequences of the beam file."""
    if settings.beam_data is not None:
        groups = load_groups(settings.beam_data, pool_size=settings.pool)
        wrong = [one for group in groups for one in (group.query, *group.pool) if not 0 <= one < problems]
        if wrong:
            raise InputError(
                f"{settings.beam_data} has the id {wrong[0]}; {settings.dataset} has {problems} rows",
                fix="Pass the dataset that the beam file was made from.",
            )
        return groups
    if problems <= settings.pool:
        raise InputError(f"{settings.dataset} has {problems} rows, --pool is {settings.pool}", fix="Lower --pool.")
    rng = random.Random(settings.seed)  # noqa: S311 - not for cryptography
    groups = []
    for query in sorted(rng.sample(range(problems), min(settings.sample_num, problems))):
        others = [one for one in range(problems) if one != query]
        groups.append(ShotGroup(query, tuple(sorted(rng.sample(others, settings.pool))), ()))
    return groups


def candidates_of(
    settings: RewardsSettings,
    groups: Sequence[ShotGroup],
    model: PointerSelector | None,
    table: EmbeddingTable | None,
    shots: int,
) -> list[Candidates]:
    """The candidate sequences of each query; one that several ways find counts for the first of them.

    The ways, in this order: beams of the checkpoint, beams of the file, the nearest shots, samples of the checkpoint,
    chance.
    """
    chosen = sampled = [[] for _ in groups]  # type: list[list[Any]]
    if model is not None and table is not None:
        chosen = choose_shots(model, groups, table, shots, max(settings.beams, 1))
        sampled = _samples(settings, groups, model, table, shots)
    result = []
    for number, group in enumerate(groups):
        found: Candidates = {}
        for rank, (ids, _) in enumerate(chosen[number][: settings.beams]):
            found.setdefault(tuple(ids), {"gen_method": "beam", "beam_rank": rank})
        for rank, one in enumerate(group.sequences[: settings.beams]):
            found.setdefault(one.shots, {"gen_method": "beam", "beam_rank": rank, "beam_score": one.reward})
        if table is not None:
            [row] = table.rows([group.query])
            near = table.nearest(row, group.pool, settings.retrieval + shots - 1)
            for start in range(min(settings.retrieval, len(near) - shots + 1)):
                found.setdefault(tuple(near[start : start + shots]), {"gen_method": "retrieval"})
        for ids, temperature in sampled[number]:
            found.setdefault(tuple(ids), {"gen_method": "sample", "temperature": temperature})
        rng = random.Random(f"{settings.seed}:{group.query}")  # noqa: S311 - not for cryptography
        for _ in range(settings.random):
            by_chance = tuple(rng.sample(group.pool, min(shots, len(group.pool))))
            found.setdefault(by_chance, {"gen_method": "random"})
        if not found:
            raise InputError("No candidate sequence", fix="Pass --random, --checkpoint or --beam-data.")
        result.append(found)
    return result


def _samples(
    settings: RewardsSettings, groups: Sequence[ShotGroup], model: PointerSelector, table: EmbeddingTable, shots: int
) -> list[list[tuple[list[int], float]]]:
    """For each query, sequences drawn from the selector with their temperatures."""
    found: list[list[tuple[list[int], float]]] = [[] for _ in groups]
    if not settings.samples:
        return found
    generator = torch.Generator().manual_seed(settings.seed)
    for number, group in enumerate(groups):
        batch = make_batch([group], table)
        with torch.no_grad():
            encoded = model.encode(batch.query_BD, batch.pool_BKD, batch.pool_mask_BK)
        for temperature in settings.temperatures:
            steps = min(shots, len(group.pool))
            drawn = sample_sequences(
                model, encoded, steps, settings.samples, temperature=temperature, generator=generator
            )
            for places, length in zip(drawn.places_BNS[0].tolist(), drawn.length_BN[0].tolist(), strict=True):
                found[number].append(([group.pool[place] for place in places[:length]], temperature))
    return found


async def _ask(
    settings: RewardsSettings, manager: ApiManager, prompts: ShotPrompts, asked: Sequence[tuple[int, Sequence[int]]]
) -> list[str]:
    async with open_client(settings, manager) as client:
        return await ask_with_shots(client, settings, prompts, asked)
