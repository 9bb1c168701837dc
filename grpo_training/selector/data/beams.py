"""Making a beam file: which shots raise the probability that an endpoint gives to the right answer (InfoScore)."""

from __future__ import annotations

import asyncio
import json
import math
import statistics
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from engine.api_manager import ApiManager
from engine.errors import InputError
from engine.storage.append_log import replace_file
from grpo_training.cli.bar import progress_bar
from grpo_training.selector.data.beam_file import beam_entry
from grpo_training.selector.data.embed import embed_items
from grpo_training.selector.data.embedders import ImageEmbedder, open_embedder
from grpo_training.selector.data.groups import ScoredSequence
from grpo_training.selector.data.images import checked_images
from grpo_training.selector.data.items import load_items
from grpo_training.selector.data.prompts import ShotPrompts
from grpo_training.selector.data.sampling import PoolSampler
from grpo_training.selector.settings import BeamsSettings
from grpo_training.serve.endpoints import open_client

RESULT = "beams.json"


def make_beams(settings: BeamsSettings) -> int:
    """Write ``beams.json``, and the embeddings of the dataset's texts. Returns the exit code.

    With images, their embeddings are written too if the model embeds images. Stored replies are used again.

    Raises:
        ScaffoldError: bad input, or an endpoint that cannot score answers.
    """
    manager = settings.load_endpoints()
    manager.endpoint(settings.role)
    problems = load_items(settings.dataset)
    images = checked_images(settings, problems, settings.dataset)
    if silent := next((problem.id for problem in problems if not problem.answer.strip()), None):
        raise InputError(f"{settings.dataset}: {silent} has no answer, whose probability could be asked for")
    if settings.pool < settings.shots or len(problems) <= settings.pool:
        raise InputError(
            f"{settings.dataset} has {len(problems)} problems, --pool is {settings.pool}, --shots {settings.shots}",
            fix="Pass a smaller --pool, which is at least --shots and below the number of problems.",
        )
    model, folder, pictures = settings.embedding_model, settings.output_dir, None
    texts = embed_items(model, [problem.text for problem in problems], "text", folder)
    if images and isinstance(open_embedder(model), ImageEmbedder):
        pictures = embed_items(model, [str(path) for path in images], "image", folder)
    sampler = PoolSampler(settings.sampler, texts, pictures, settings.pool, settings.seed)
    entries = asyncio.run(_entries(ShotPrompts(problems, images), sampler, settings, manager))
    replace_file(folder / RESULT, json.dumps(entries).encode() + b"\n")
    best = sum(entry["score_list"][0] for entry in entries.values()) / len(entries)
    print(f"{len(entries)} queries, mean score of the best beam {best:.4f}: {folder / RESULT}")
    return 0


async def _entries(
    prompts: ShotPrompts, sampler: PoolSampler, settings: BeamsSettings, manager: ApiManager
) -> dict[str, Any]:
    """Query -> its entry in the beam file."""
    entries = {}
    async with open_client(settings, manager) as client:
        for query in progress_bar(sampler.anchors(settings.sample_num), desc="queries", unit=""):

            async def probability(shots: Sequence[int], query: int = query) -> float:
                """The geometric mean of the probabilities of the tokens of the right answer after the prompt."""
                answer = prompts.problems[query].answer
                completion = await prompts.completion(client, settings.role, shots, query, 1, answer)
                assert completion.logprobs
                return math.exp(statistics.fmean(completion.logprobs))

            pool = sampler.pool_of(query)
            beams = await beam_search(pool, probability, settings.shots, settings.beam_size)
            entries[str(query)] = beam_entry(query, ((beam.shots, beam.reward) for beam in beams), pool)
    return entries


async def beam_search(
    pool: Sequence[int], probability: Callable[[Sequence[int]], Awaitable[float]], shots: int, beam_size: int
) -> list[ScoredSequence]:
    """The best shot sequences of a query, the best first.

    A new shot is put before the others, so that the one that was chosen first stands next to the query. The reward is
    the gain of all shots together, ``P(answer | shots) - P(answer | no shots)``.

    Args:
        pool: the shots to choose from.
        probability: of the right answer after the prompt with these shots.
        shots: length of a sequence.
        beam_size: sequences that are kept at each length.
    """
    alone = await probability(())
    beams = [ScoredSequence((), 0.0)]
    for _ in range(shots):
        grown = dict.fromkeys((shot, *beam.shots) for beam in beams for shot in pool if shot not in beam.shots)
        probabilities = await asyncio.gather(*map(probability, grown))
        scored = [ScoredSequence(chosen, value - alone) for chosen, value in zip(grown, probabilities, strict=True)]
        beams = sorted(scored, key=lambda beam: (-beam.reward, beam.shots))[:beam_size]
    return beams
