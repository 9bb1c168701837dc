"""Beam files and reward files: stored shot sequences of each query, with what they scored.

Both are one JSON object; its keys are ids of queries. Keys that are no number (``_meta``) and unknown keys inside a
query are ignored. Everything else is read strictly, and the first wrong entry is named.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
from pydantic import BaseModel, Field, Strict, ValidationError

from engine.errors import InputError, MissingInputError
from engine.records import first_fault
from grpo_training.selector.data.groups import ScoredSequence, ShotGroup

_UNSCORED = ("fallback", "error")
"""Values of ``vqa_eval_mode`` whose score is not that of the official metric."""
_Id = Annotated[int, Strict()]
_Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]


class _Entry(BaseModel):
    """What both files have of a query."""

    candidate_pool_ids: list[_Id] | None = None


class _Beams(_Entry):
    """A query of a beam file."""

    id_list: list[list[_Id]]
    score_list: list[_Number]


class _Candidate(BaseModel):
    """A candidate of a reward file."""

    pointer: list[_Id]
    pointer_global: list[_Id] | None = None
    vqa_correct: bool | _Number | None = None
    vqa_acc_score: _Number | None = None
    vqa_eval_mode: str | None = None
    eval_failed: bool = False


class _Measured(_Entry):
    """A query of a reward file."""

    pointer_candidates: list[_Candidate]


_EntryT = TypeVar("_EntryT", bound=_Entry)
_Query = tuple[int, list[ScoredSequence], list[int] | None]
"""A query with its sequences and its pool, if it has one."""


def load_groups(path: Path, *, beam_size: int | None = None, pool_size: int = 64) -> list[ShotGroup]:
    """The groups of a beam file or a reward file, by the content of the file.

    Args:
        path: the file.
        beam_size: beams of a query that are used, the first ones; None: all. Reward files have no beams.
        pool_size: size of a pool that the file does not name.

    Raises:
        MissingInputError: there is no such file.
        InputError: an entry is wrong; the message names it.
    """
    data = read_object(path)
    if any(isinstance(entry, dict) and "pointer_candidates" in entry for entry in data.values()):
        return groups_of_rewards(data, str(path), pool_size=pool_size)
    return groups_of_beams(data, str(path), beam_size=beam_size, pool_size=pool_size)


def beam_entry(query: int, beams: Iterable[tuple[Sequence[int], float]], pool: Iterable[int]) -> dict[str, list[Any]]:
    """The entry of a query in a beam file: see :func:`groups_of_beams`.

    Args:
        query: its id.
        beams: the shots of each beam with its score.
        pool: the shots that can be chosen.
    """
    scored = list(beams)
    return {
        "id_list": [[*shots, query] for shots, _ in scored],
        "score_list": [score for _, score in scored],
        "candidate_pool_ids": list(pool),
    }


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object of a file."""
    try:
        loaded = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise MissingInputError(
            f"Beam data not found: {path}", fix="Make it: python -m grpo_training.selector beams --help"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON", why=str(error)) from None
    if not isinstance(loaded, dict):
        raise InputError(f"{path}: expected an object with one entry per query, got {type(loaded).__name__}")
    return loaded


def groups_of_beams(
    data: Mapping[str, Any], source: str, *, beam_size: int | None = 5, pool_size: int = 64
) -> list[ShotGroup]:
    """The groups of a beam file's object.

    An entry has ``id_list``, the shot ids of each beam followed by the query's own id, and ``score_list``, one score
    for each beam. ``candidate_pool_ids`` names the pool; without it the pool is filled with other shots of the file.

    Args:
        data: the object.
        source: named in errors.
        beam_size: beams of a query that are used, the first ones; None: all.
        pool_size: size of a pool that is filled.
    """
    queries: list[_Query] = []
    for query, where, entry in _entries(_Beams, data, source):
        if len(entry.id_list) != len(entry.score_list):
            raise InputError(f"{where}: {len(entry.id_list)} entries in id_list, {len(entry.score_list)} in score_list")
        sequences = []
        for number, (ids, score) in enumerate(zip(entry.id_list, entry.score_list, strict=True), 1):
            if not ids or ids[-1] != query:
                raise InputError(f"{where}, beam {number}: the last id must be the query's own, got {ids}")
            sequences.append(ScoredSequence(tuple(ids[:-1]), score))
        queries.append((query, sequences[:beam_size], entry.candidate_pool_ids))
    return _with_pools(queries, pool_size)


def groups_of_rewards(data: Mapping[str, Any], source: str, *, pool_size: int = 64) -> list[ShotGroup]:
    """The groups of a reward file's object.

    An entry has ``pointer_candidates``; a candidate has ``pointer``, the ids of its shots (positions in the pool if
    ``pointer_global`` is there too), and ``vqa_correct`` and ``vqa_acc_score``, whose sum is the reward. Candidates
    whose scoring failed are left out.
    """
    queries: list[_Query] = []
    for query, where, entry in _entries(_Measured, data, source):
        sequences = []
        for number, candidate in enumerate(entry.pointer_candidates, 1):
            at = f"{where}, candidate {number}"
            shots = _shots_of(candidate, entry.candidate_pool_ids, at)
            if query in shots:
                raise InputError(f"{at}: the query is a shot of itself")
            if candidate.eval_failed or candidate.vqa_eval_mode in _UNSCORED:
                continue
            if candidate.vqa_acc_score is None:
                raise InputError(
                    f"{at}: no vqa_acc_score",
                    why="What was not measured is not 0, which is the reward of a wrong answer.",
                    fix="Measure it, or mark candidates that could not be scored by eval_failed.",
                )
            sequences.append(ScoredSequence(shots, (candidate.vqa_correct or 0) + candidate.vqa_acc_score))
        queries.append((query, sequences, entry.candidate_pool_ids))
    return _with_pools(queries, pool_size)


def _shots_of(candidate: _Candidate, pool: Sequence[int] | None, at: str) -> tuple[int, ...]:
    shots = candidate.pointer_global
    if shots is None:
        return tuple(candidate.pointer)
    if pool is not None:
        inside = all(0 <= position < len(pool) for position in candidate.pointer)
        if not inside or [pool[position] for position in candidate.pointer] != shots:
            raise InputError(
                f"{at}: pointer and pointer_global name different shots",
                why=f"Positions {candidate.pointer} of the pool are not the ids {shots}.",
            )
    return tuple(shots)


def _with_pools(queries: Sequence[_Query], size: int) -> list[ShotGroup]:
    """Groups in the order of their ids. A missing pool is the query's own shots and others of the file, by chance."""
    shots = sorted({shot for _, sequences, _ in queries for sequence in sequences for shot in sequence.shots})
    groups = []
    for query, sequences, pool in queries:
        if pool is None:
            chosen = {shot for sequence in sequences for shot in sequence.shots}
            others = [shot for shot in shots if shot not in chosen and shot != query]
            count = max(0, min(size - len(chosen), len(others)))
            filled = random.Random(f"pool:{query}").sample(others, count)  # noqa: S311 - not for cryptography
            pool = sorted([*chosen, *filled])
        if sequences:
            groups.append(ShotGroup(query, tuple(pool), tuple(sequences)))
    return sorted(groups, key=lambda group: group.query)


def _entries(model: type[_EntryT], data: Mapping[str, Any], source: str) -> list[tuple[int, str, _EntryT]]:
    """The id of each query, its place for messages, and its entry.

    Raises:
        InputError: there is no query, or an entry is wrong.
    """
    entries = []
    for key, raw in data.items():
        if not key.removeprefix("-").isdecimal():
            continue
        where = f"{source}, query {key}"
        try:
            entries.append((int(key), where, model.model_validate(raw)))
        except ValidationError as error:
            raise InputError(f"{where}: {first_fault(error)}") from None
    if not entries:
        raise InputError(f"{source} has no query", why="The keys of its queries are their ids, as text.")
    return entries


class BeamDataset(torch.utils.data.Dataset):  # type: ignore[misc]
    """The sequences of a beam file, one sample per query, for training loops of other programs.

    A sample has ``query_id``, ``pool``, ``beam_labels`` (positions in the pool), ``beam_shots`` (ids) and
    ``beam_rewards``; as many as the query has beams, at most ``beam_size``.

    Args:
        data: the object of a beam file.
        beam_size: beams of a query that are used, the first ones.
        pool_size: size of a pool that the file does not name.
    """

    def __init__(self, data: Mapping[str, Any], beam_size: int = 5, pool_size: int = 64) -> None:
        self.groups = groups_of_beams(data, "the beam data", beam_size=beam_size, pool_size=pool_size)

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: int) -> dict[str, Any]:
        group = self.groups[index]
        return {
            "query_id": group.query,
            "pool": list(group.pool),
            "beam_labels": [[group.pool.index(shot) for shot in sequence.shots] for sequence in group.sequences],
            "beam_shots": [list(sequence.shots) for sequence in group.sequences],
            "beam_rewards": [sequence.reward for sequence in group.sequences],
        }
