"""Answers of an endpoint with shots by chance, by similarity and by a selector, for several numbers of shots."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.api_manager import ApiManager
from engine.datasets import load_problems
from engine.errors import IncompleteRunError, InputError
from engine.records import IMAGE_MARK, ChatRequest, Message, Outcome, Problem, Sampling
from engine.statistics.paired import clustered_mean, paired_difference
from engine.storage.append_log import replace_file
from grpo_training.selector.data.beams import prompt_of
from grpo_training.selector.data.embeddings import EmbeddingTable, open_embedder
from grpo_training.selector.data.groups import ShotGroup
from grpo_training.selector.data.images import data_url, image_paths
from grpo_training.selector.model.checkpoint import load_model
from grpo_training.selector.predict import choose_shots
from grpo_training.selector.settings import InferSettings
from grpo_training.selector.vqa import normalize_answer, short_answer, vqa_accuracy
from grpo_training.serve.endpoints import open_client

Shots = list[list[int]]
"""For each query the ids of its shots, in the order of the prompt."""
WAYS = ("random", "similarity", "selector")
_BEAM = 5


def infer(settings: InferSettings) -> int:
    """Ask and score; print and write the figures. Returns the exit code. Stored replies are used again.

    Raises:
        ScaffoldError: bad input, or an endpoint that refuses or does not answer.
    """
    manager = settings.load_endpoints()
    manager.endpoint(settings.role)
    shots = load_problems(settings.shots_dataset)
    queries = load_problems(settings.dataset, max_problems=settings.max_problems)
    chosen = {count: shots_of(settings, shots, queries, count) for count in settings.shot_nums}
    images = _images(settings, shots, queries)
    scores = asyncio.run(_ask_all(settings, manager, [*shots, *queries], images, len(shots), chosen))
    metrics = {}
    for count, by_way in scores.items():
        similar = by_way["similarity"]
        for way, clusters in by_way.items():
            mean, gain = clustered_mean(clusters), paired_difference(clusters, similar)
            metrics[f"{way}: shot_num={count}"] = {
                "accuracy": round(100 * mean.value, 2),
                "low": mean.low and round(100 * mean.low, 2),
                "high": mean.high and round(100 * mean.high, 2),
                "minus_similarity": round(100 * gain.value, 2),
            }
            print(f"{count} shots, {way:10} {mean.value:6.1%}   {gain.value:+.1%} against similarity")
    settings.output.parent.mkdir(parents=True, exist_ok=True)
    replace_file(settings.output, json.dumps(metrics, indent=2).encode() + b"\n")
    print(f"{len(queries)} queries: {settings.output}")
    return 0


def shots_of(
    settings: InferSettings, shots: Sequence[Problem], queries: Sequence[Problem], count: int
) -> Mapping[str, Shots]:
    """The shots of each way of choosing.

    Raises:
        InputError: the checkpoint does not tell what embeds texts, or there are fewer shots than asked for.
    """
    model, info = load_model(settings.checkpoint)
    if "model" not in info.embeddings:
        raise InputError(f"{settings.checkpoint} does not tell which model embeds texts")
    if count > min(settings.pool, len(shots)):
        raise InputError(
            f"{count} shots are asked for; {settings.shots_dataset} has {len(shots)}, --pool {settings.pool}"
        )
    rows = open_embedder(str(info.embeddings["model"])).embed([one.text for one in (*shots, *queries)])
    table, ids = EmbeddingTable(rows), list(range(len(shots)))
    pools = [table.nearest(row, ids, settings.pool) for row in table.rows(range(len(shots), len(rows)))]
    groups = [ShotGroup(len(shots) + number, tuple(pool), ()) for number, pool in enumerate(pools)]
    found = choose_shots(model, groups, table, count, _BEAM)
    rng = random.Random(f"{settings.seed}:{count}")  # noqa: S311 - not for cryptography
    return {
        "random": [rng.sample(pool, count) for pool in pools],
        "similarity": [pool[:count] for pool in pools],
        "selector": [sequences[0][0] for sequences in found],
    }


def _images(settings: InferSettings, shots: Sequence[Problem], queries: Sequence[Problem]) -> list[Path]:
    """The image files of shots and queries, each checked before anything is paid for; none without ``--images``.

    Raises:
        InputError: an image is missing, too large or of a type that is not sent; or a text has the mark of an image.
    """
    if settings.images is None:
        return []
    found = image_paths(shots, settings.images, settings.images_dir, settings.shots_dataset)
    found += image_paths(queries, settings.images, settings.images_dir, settings.dataset)
    for path in dict.fromkeys(found):
        data_url(path, settings.max_image_mb)
    for problem in (*shots, *queries):
        if IMAGE_MARK in problem.text or IMAGE_MARK in problem.answer:
            raise InputError(f"{problem.id}: its text has U+FFFC, which marks the place of an image in a prompt")
    return found


async def _ask_all(
    settings: InferSettings,
    manager: ApiManager,
    items: Sequence[Problem],
    images: Sequence[Path],
    shots: int,
    chosen: Mapping[int, Mapping[str, Shots]],
) -> dict[int, dict[str, dict[str, list[float]]]]:
    """Number of shots -> way of choosing -> query -> its accuracy."""
    async with open_client(settings, manager) as client:

        async def accuracy(query: int, ids: Sequence[int]) -> float:
            prompt = prompt_of(items, ids, query, before=IMAGE_MARK if images else "")
            request = ChatRequest(
                role=settings.role,
                messages=(Message(role="user", content=prompt),),
                sampling=Sampling(temperature=0.0, max_tokens=settings.max_tokens),
                purpose="evaluation",
                images=tuple(data_url(images[one], settings.max_image_mb) for one in (*ids, query) if images),
            )
            [reply] = await client.sample(request, [0])
            if reply.outcome is Outcome.INFRA_FAULT:
                kind = reply.fault.kind if reply.fault else "unknown"
                raise IncompleteRunError(
                    f"{items[query].id}: no reply ({kind})", fix="Run the same command again; stored replies are used."
                )
            return score(items[query], reply.completion.text if reply.completion else "")

        result: dict[int, dict[str, dict[str, list[float]]]] = {}
        for count, by_way in chosen.items():
            result[count] = {}
            for way in WAYS:
                values = await asyncio.gather(
                    *(accuracy(shots + number, ids) for number, ids in enumerate(by_way[way]))
                )
                names = [items[shots + number].id for number in range(len(values))]
                result[count][way] = {name: [value] for name, value in zip(names, values, strict=True)}
        return result


def score(problem: Problem, completion: str) -> float:
    """The accuracy of a completion: against the answers of people (``answers`` of the row), else against the answer."""
    answer = short_answer(completion)
    people = problem.meta.get("answers")
    if isinstance(people, list) and len(people) > 1:
        return vqa_accuracy(answer, [str(one["answer"] if isinstance(one, dict) else one) for one in people])
    return float(normalize_answer(answer) == normalize_answer(problem.answer))
