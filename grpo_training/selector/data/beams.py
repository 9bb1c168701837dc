"""Making a beam file: which shots raise the probability that an endpoint gives to the right answer (InfoScore)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.api_manager import Endpoint
from engine.errors import InputError
from engine.llm.journal import ResponseJournal
from engine.llm.retry import RetryPolicy
from engine.records import IMAGE_MARK, Problem
from engine.storage.append_log import replace_file
from grpo_training.cli.bar import progress_bar
from grpo_training.selector.data.beam_file import beam_entry
from grpo_training.selector.data.embed import embed_items
from grpo_training.selector.data.embedders import ImageEmbedder, open_embedder
from grpo_training.selector.data.images import checked_images, data_url
from grpo_training.selector.data.items import load_items
from grpo_training.selector.data.sampling import PoolSampler
from grpo_training.selector.data.scoring import AnswerScorer
from grpo_training.selector.settings import BeamsSettings

RESULT, REPLIES = "beams.json", "requests.sqlite"


def make_beams(settings: BeamsSettings) -> int:
    """Write ``beams.json``, and the embeddings of the dataset's texts. Returns the exit code.

    With images, their embeddings are written too if the model embeds images. Each reply is stored before it is used, so
    that the same command again asks for the others only.

    Raises:
        ScaffoldError: bad input, or an endpoint that cannot score answers.
    """
    manager = settings.load_endpoints()
    endpoint = manager.endpoint(settings.role)
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
    entries = asyncio.run(_entries(ShotPrompts(problems, images), sampler, settings, endpoint))
    replace_file(folder / RESULT, json.dumps(entries).encode() + b"\n")
    best = sum(entry["score_list"][0] for entry in entries.values()) / len(entries)
    print(f"{len(entries)} queries, mean score of the best beam {best:.4f}: {folder / RESULT}")
    return 0


async def _entries(
    prompts: ShotPrompts, sampler: PoolSampler, settings: BeamsSettings, endpoint: Endpoint
) -> dict[str, Any]:
    """Query -> its entry in the beam file."""
    entries = {}
    with closing(ResponseJournal(settings.output_dir / REPLIES)) as journal:
        retry, budget = RetryPolicy(attempts=settings.attempts), settings.open_budget()
        scorer = AnswerScorer(endpoint, settings.concurrency, retry, journal, budget)
        try:
            for query in progress_bar(sampler.anchors(settings.sample_num), desc="queries", unit=""):
                pool = sampler.pool_of(query)
                beams = await beam_search(prompts, query, pool, scorer, settings.shots, settings.beam_size)
                entries[str(query)] = beam_entry(query, ((beam.shots, beam.score) for beam in beams), pool)
        finally:
            await scorer.close()
    return entries


@dataclass(frozen=True)
class ShotPrompts:
    """Prompts of shots and a query.

    Args:
        problems: shots and queries refer to them by their number.
        images: file of each problem; empty: prompts have no images.
    """

    problems: Sequence[Problem]
    images: Sequence[Path] = ()

    def text(self, shots: Sequence[int], query: int) -> str:
        """The prompt, with a mark before the question of each image."""
        return prompt_of(self.problems, shots, query, before=IMAGE_MARK if self.images else "")

    def data_urls(self, shots: Sequence[int], query: int) -> tuple[str, ...]:
        """The images of the prompt, in the order of their marks."""
        return tuple(data_url(self.images[number]) for number in (*shots, query) if self.images)


@dataclass(frozen=True)
class Beam:
    """Shots in the order of the prompt, with their score."""

    shots: tuple[int, ...]
    score: float


async def beam_search(
    prompts: ShotPrompts, query: int, pool: Sequence[int], scorer: AnswerScorer, shots: int, beam_size: int
) -> list[Beam]:
    """The best shot sequences of a query, the best first.

    A new shot is put before the others, so that the one that was chosen first stands next to the query. The score is
    the gain of all shots together, ``P(answer | shots) - P(answer | no shots)``.

    Args:
        prompts: make the prompts.
        query: the query.
        pool: the shots to choose from.
        scorer: gives the probability of an answer after a prompt.
        shots: length of a sequence.
        beam_size: sequences that are kept at each length.
    """
    answer = prompts.problems[query].answer

    async def probability(chosen: Sequence[int]) -> float:
        return await scorer.probability(prompts.text(chosen, query), answer, prompts.data_urls(chosen, query))

    alone = await probability(())
    beams = [Beam((), 0.0)]
    for _ in range(shots):
        grown = dict.fromkeys((shot, *beam.shots) for beam in beams for shot in pool if shot not in beam.shots)
        probabilities = await asyncio.gather(*map(probability, grown))
        scored = [Beam(chosen, value - alone) for chosen, value in zip(grown, probabilities, strict=True)]
        beams = sorted(scored, key=lambda beam: (-beam.score, beam.shots))[:beam_size]
    return beams


def prompt_of(problems: Sequence[Problem], shots: Sequence[int], query: int, before: str = "") -> str:
    """The prompt: a question with its short answer for each shot, then the question of the query.

    Args:
        before: stands before each question, such as the mark of its image.
    """
    parts = [f"{before}Question:{problems[shot].text} Short answer:{problems[shot].answer}\n" for shot in shots]
    return "".join(parts) + f"{before}Question:{problems[query].text} Short answer:"
