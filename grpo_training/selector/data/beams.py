"""Making a beam file: which shots raise the probability that an endpoint gives to the right answer (InfoScore)."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.api_manager import Endpoint
from engine.errors import InputError
from engine.llm.journal import ResponseJournal
from engine.llm.retry import RetryPolicy
from engine.records import IMAGE_MARK, Problem
from engine.storage.append_log import AppendLog, replace_file
from grpo_training.cli.bar import progress_bar
from grpo_training.runs.files import RunFiles
from grpo_training.selector.asking.settings import BeamsSettings
from grpo_training.selector.data.beam_file import beam_entry, groups_of_beams
from grpo_training.selector.data.embeddings import ImageEmbedder, open_embedder, write_embeddings
from grpo_training.selector.data.encoder import part_of_file
from grpo_training.selector.data.images import checked_images, contents_of, data_url
from grpo_training.selector.data.items import load_items
from grpo_training.selector.data.sampling import PoolSampler
from grpo_training.selector.data.scoring import AnswerScorer

PARTIAL, RESULT, EMBEDDINGS = "beams.partial.jsonl", "beams.json", "embeddings.npy"
IMAGE_EMBEDDINGS = "image_embeddings.npy"
REPLIES = "requests.sqlite"


def make_beams(settings: BeamsSettings) -> int:
    """Write ``beams.json``, and the embeddings of the dataset's texts. Returns the exit code.

    With images, those of the images are written too if the model embeds images. Each reply is stored before it is
    used, and the same command again continues.

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
    settings.output_dir.mkdir(parents=True, exist_ok=True)
    log = AppendLog(settings.output_dir / PARTIAL)
    files = RunFiles(settings.output_dir / "beams_run.json", [log.path], lock=log)
    settings = files.resumed(settings)
    with files.open(settings, {"model": endpoint.model, "rows": _digest(problems, images)}) as manifest:
        embedder = open_embedder(settings.embedding_model)
        rows = embedder.embed([problem.text for problem in problems])
        write_embeddings(settings.output_dir / EMBEDDINGS, rows, settings.embedding_model, embedder.name)
        by_image = settings.img_emb
        if by_image is not None:
            part_of_file(by_image, "image")
        elif images and isinstance(embedder, ImageEmbedder):
            by_image = settings.output_dir / IMAGE_EMBEDDINGS
            pictures = embedder.embed_images([str(path) for path in images])
            write_embeddings(by_image, pictures, settings.embedding_model, embedder.name, "image")
        sampler = PoolSampler(settings.sampler, rows, by_image, settings.pool, settings.seed)
        done = _stored(log.path)
        anchors = sampler.anchors(settings.sample_num)
        left = [one for one in anchors if one not in done]
        prompts = ShotPrompts(problems, images, settings.max_image_mb)
        asyncio.run(_score_all(prompts, left, sampler, settings, endpoint, log))
        done = _stored(log.path)
        entries = {str(anchor): done[anchor] for anchor in sorted(anchors)}
        replace_file(settings.output_dir / RESULT, json.dumps(entries).encode() + b"\n")
        manifest.finish()
    best = sum(entry["score_list"][0] for entry in entries.values()) / len(entries)
    print(f"{len(entries)} queries, mean score of the best beam {best:.4f}: {settings.output_dir / RESULT}")
    return 0


async def _score_all(
    prompts: ShotPrompts,
    anchors: Sequence[int],
    sampler: PoolSampler,
    settings: BeamsSettings,
    endpoint: Endpoint,
    log: AppendLog,
) -> None:
    with closing(ResponseJournal(settings.output_dir / REPLIES)) as journal:
        retry, budget = RetryPolicy(attempts=settings.attempts), settings.open_budget()
        scorer = AnswerScorer(endpoint, settings.concurrency, retry, journal=journal, budget=budget)
        try:
            for anchor in progress_bar(anchors, desc="queries", unit=""):
                pool = sampler.pool_of(anchor)
                beams = await beam_search(
                    prompts, anchor, pool, scorer, settings.shots, settings.beam_size, score=settings.score
                )
                entry = beam_entry(anchor, ((beam.shots, beam.score) for beam in beams), pool)
                log.append(json.dumps({"query": anchor} | entry).encode())
                scorer.forget()
        finally:
            await scorer.close()


@dataclass(frozen=True)
class ShotPrompts:
    """Prompts of shots and a query.

    Args:
        problems: shots and queries refer to them by their number.
        images: file of each problem; empty: prompts have no images.
        max_image_mb: larger files are refused.
    """

    problems: Sequence[Problem]
    images: Sequence[Path] = ()
    max_image_mb: float = 5.0

    def text(self, shots: Sequence[int], query: int) -> str:
        """The prompt, with a mark before the question of each image."""
        return prompt_of(self.problems, shots, query, before=IMAGE_MARK if self.images else "")

    def data_urls(self, shots: Sequence[int], query: int) -> tuple[str, ...]:
        """The images of the prompt, in the order of their marks."""
        return tuple(data_url(self.images[one], self.max_image_mb) for one in (*shots, query) if self.images)


@dataclass(frozen=True)
class Beam:
    """Shots in the order of the prompt, with their score, and the probability of the answer with all of them."""

    shots: tuple[int, ...]
    score: float
    probability: float


async def beam_search(
    prompts: ShotPrompts,
    query: int,
    pool: Sequence[int],
    scorer: AnswerScorer,
    shots: int,
    beam_size: int,
    *,
    score: Literal["all", "last"] = "all",
) -> list[Beam]:
    """The best shot sequences of a query, the best first.

    A new shot is put before the others, so that the one that was chosen first stands next to the query.

    Args:
        prompts: make the prompts.
        query: the query.
        pool: the shots to choose from.
        scorer: gives the probability of an answer after a prompt.
        shots: length of a sequence.
        beam_size: sequences that are kept at each length.
        score: ``all``: the gain of all shots together, ``P(answer | shots) - P(answer | no shots)``. ``last``: the gain
            of the last one, ``P(answer | shots) - P(answer | shots before)``, which ranks a good shot after a bad one
            above two good ones.
    """
    answer = prompts.problems[query].answer

    async def probability(chosen: Sequence[int]) -> float:
        return await scorer.probability(prompts.text(chosen, query), answer, prompts.data_urls(chosen, query))

    alone = await probability(())
    beams = [Beam((), 0.0, alone)]
    for _ in range(shots):
        grown = [(beam, (shot, *beam.shots)) for beam in beams for shot in pool if shot not in beam.shots]
        found = await asyncio.gather(*(probability(shots_now) for _, shots_now in grown))
        scored = [
            Beam(shots_now, probability - (alone if score == "all" else beam.probability), probability)
            for (beam, shots_now), probability in zip(grown, found, strict=True)
        ]
        beams = sorted(scored, key=lambda beam: (-beam.score, beam.shots))[:beam_size]
    return beams


def prompt_of(problems: Sequence[Problem], shots: Sequence[int], query: int, before: str = "") -> str:
    """The prompt: a question with its short answer for each shot, then the question of the query.

    Args:
        before: stands before each question, such as the mark of its image.
    """
    parts = [f"{before}Question:{problems[shot].text} Short answer:{problems[shot].answer}\n" for shot in shots]
    return "".join(parts) + f"{before}Question:{problems[query].text} Short answer:"


def _digest(problems: Sequence[Problem], images: Sequence[Path]) -> str:
    """Identifies what is asked about the rows: beams of other rows are not continued."""
    rows = [[problem.text, problem.answer] for problem in problems]
    return hashlib.sha256(json.dumps([rows, contents_of(images)]).encode()).hexdigest()[:16]


def _stored(path: Path) -> dict[int, dict[str, Any]]:
    """Query -> its entry, of the lines that are complete."""
    found = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            entry = json.loads(line)
            query = entry.pop("query")
            groups_of_beams({str(query): entry}, str(path))
            found[int(query)] = entry
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, InputError):
            continue  # torn by a crash, or damaged: the query is searched again, with the stored replies
    return found
