"""Experiences as shots: a selector in the main loop, and training data from stored rollouts."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from engine.errors import InputError, MissingInputError
from engine.experience.library import ExperienceLibrary
from engine.records import Experience, Problem, Record
from engine.storage.append_log import replace_file
from engine.storage.stored_records import StoredFusions, StoredGroups, StoredRecords
from grpo_training.cli.terminal_text import counted, say
from grpo_training.runs.learner_files import library_file, results_file
from grpo_training.runs.named import places
from grpo_training.selector.data.beam_file import beam_entry
from grpo_training.selector.data.embeddings import Array, open_embedder, write_embeddings
from grpo_training.selector.data.encoder import parts_of
from grpo_training.selector.model.checkpoint import load_model
from grpo_training.selector.model.decoding import beam_search
from grpo_training.selector.settings import ExperiencesSettings

RecordT = TypeVar("RecordT", bound=Record)

_BEAM = 5


class SelectorChoice:
    """Chooses experiences with a trained selector.

    Args:
        checkpoint: of a selector that was trained on embeddings of texts.
        count: number of experiences.

    Raises:
        InputError: the checkpoint does not tell what embeds texts.
    """

    def __init__(self, checkpoint: Path, count: int) -> None:
        self._model, info = load_model(checkpoint)
        parts = parts_of(info.embeddings)
        if len(parts) != 1 or parts[0].modality != "text" or not parts[0].model:
            shown = " and ".join(map(str, parts))
            raise InputError(
                f"{checkpoint} cannot choose experiences",
                why=f"It was trained on {shown}." if parts else "It does not tell which model embeds texts.",
                fix="Train it on the files of `python -m grpo_training.selector experiences`.",
            )
        self._embedder = open_embedder(parts[0].model)
        self._count = count
        self._known: dict[str, Array] = {}
        self.digest = hashlib.sha256(checkpoint.read_bytes()).hexdigest()[:16]

    def choose(self, problem: Problem, epoch: int, experiences: Sequence[Experience]) -> Sequence[Experience]:
        """The experiences of a prompt, in the order in which the selector chooses them."""
        if not experiences:
            return ()
        texts = [problem.text, *(experience_text(one) for one in experiences)]
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known |= dict(zip(new, self._embedder.embed(new), strict=True))
        rows = torch.as_tensor(np.stack([self._known[text] for text in texts]))
        with torch.no_grad():
            encoded = self._model.encode(rows[:1], rows[1:].unsqueeze(0))
        best = beam_search(self._model, encoded, min(self._count, len(experiences)), _BEAM)
        places = best.places_BNS[0, 0, : int(best.length_BN[0, 0])].tolist()
        return [experiences[place] for place in places]


def experience_text(experience: Experience) -> str:
    """What of an experience is embedded."""
    category = experience.category.replace("_", " ")
    return f"{category}: {experience.content}" if category else experience.content


def write_experience_data(settings: ExperiencesSettings) -> int:
    """Write stored rollouts of a role as a beam file of experiences. Returns the exit code.

    A query is a problem, its shots are experiences, and the score of a sequence is the mean reward of the rollouts
    whose prompts had these experiences in this order.
    """
    cache, libraries = places(settings.run, settings.cache_dir, settings.experiences_dir)
    scores, texts = _scores(cache, settings.role)
    known, in_use = texts_of_library(libraries, settings.role)
    order = list(known)
    place = {name: number for number, name in enumerate(order)}
    live = [place[name] for name in in_use]
    entries: dict[str, Any] = {}
    dropped = differing = 0
    for number, (problem, by_ids) in enumerate(scores.items(), len(order)):
        usable = {ids: rewards for ids, rewards in by_ids.items() if ids and place.keys() >= set(ids)}
        dropped += len(by_ids) - len(usable)
        if not usable:
            continue
        differing += len({statistics.fmean(rewards) for rewards in usable.values()}) > 1
        found = sorted(((statistics.fmean(rewards), ids) for ids, rewards in usable.items()), reverse=True)
        used = {place[name] for _, ids in found for name in ids}
        beams = [([place[name] for name in ids], score) for score, ids in found]
        entries[str(number)] = beam_entry(number, beams, sorted(used | set(live))) | {"problem_id": problem}
    if not entries:
        raise InputError(
            f"No rollout of {settings.role} has experiences that its library names",
            fix="Run the generator with a library and --select random, so that prompts differ.",
        )
    embedder = open_embedder(settings.embedding_model)
    rows = embedder.embed([*(experience_text(known[name]) for name in order), *(texts[one] for one in scores)])
    settings.output_dir.mkdir(parents=True, exist_ok=True)
    write_embeddings(settings.output_dir / "embeddings.npy", rows, settings.embedding_model, embedder.name)
    replace_file(settings.output_dir / "beams.json", json.dumps(entries).encode() + b"\n")
    print(f"{len(entries)} problems, {counted(len(order), 'experience')}: {settings.output_dir}")
    print(f"problems whose sequences have different rewards: {differing}; sequences left out: {dropped}")
    return 0


def texts_of_library(folder: Path, role: str) -> tuple[dict[str, Experience], list[str]]:
    """All experiences that a role's library ever had, by id, and the ids of those that are in use."""
    library = ExperienceLibrary(library_file(folder, role), read_only=True)
    known = {one.id: one for entry in library.history() for one in entry.after.texts}
    known |= {one.id: one for one in library.state.texts}
    return known, [one.id for one in library.state.texts]


def _scores(cache_dir: Path, role: str) -> tuple[dict[str, dict[tuple[str, ...], list[float]]], dict[str, str]]:
    """Problem -> experience ids -> rewards, and problem -> text."""
    scores: dict[str, dict[tuple[str, ...], list[float]]] = {}
    texts: dict[str, str] = {}
    path = results_file(cache_dir, role)
    if not path.exists():
        raise MissingInputError(f"Rollouts file not found: {path}", fix="Run that role first, or pass --cache-dir.")
    if role == "critic":
        for one in in_order(StoredFusions(path)):
            if one.rewards.r_total is not None:
                texts[one.problem_id] = one.problem_text
                by_ids = scores.setdefault(one.problem_id, {})
                by_ids.setdefault(tuple(one.experience_ids), []).append(one.rewards.r_total)
        return scores, texts
    for group in in_order(StoredGroups(path, with_incomplete=True)):
        for rollout in group.rollouts:
            if rollout.outcome.carries_reward and rollout.r_total is not None:
                texts[group.problem_id] = group.problem_text
                by_ids = scores.setdefault(group.problem_id, {})
                by_ids.setdefault(tuple(rollout.experience_ids), []).append(rollout.r_total)
    return scores, texts


def in_order(stored: StoredRecords[Any, RecordT, Any]) -> Iterator[RecordT]:
    """The records of a file, each read when it is its turn; then the lines that cannot be read are named."""
    yield from stored.in_order()
    for line in stored.broken:
        say(f"skipped {line}")
