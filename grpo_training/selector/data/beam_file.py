"""Beam files and reward files: stored shot sequences of each query, with what they scored.

Both are one JSON object; its keys are ids of queries. Keys that are no number (``_meta``) and unknown keys inside a
query are ignored. Everything else is read strictly, and the first wrong entry is named.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from engine.errors import InputError, MissingInputError
from grpo_training.selector.data.groups import ScoredSequence, ShotGroup

POOL_KEYS = ("candidate_pool_ids", "candidate_pool_indices")
_QUERY = re.compile(r"-?[0-9]{1,4000}")
Entry = tuple[int, list[ScoredSequence], tuple[int, ...] | None]
"""A query with its sequences and its pool, if it has one."""
_UNSCORED = ("fallback", "error")
"""Values of ``vqa_eval_mode`` whose score is not that of the official metric."""


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
    if any("pointer_candidates" in entry for _, entry in _queries(data, str(path))):
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
    entries: list[Entry] = []
    for query, entry in _queries(data, source):
        where = f"{source}, query {query}"
        beams, scores = _list(entry, "id_list", where), _list(entry, "score_list", where)
        if len(beams) != len(scores):
            raise InputError(f"{where}: {len(beams)} entries in id_list, {len(scores)} in score_list")
        pool, sequences = _pool_of(entry, where), []
        for number, (raw, score) in enumerate(zip(beams, scores, strict=True), 1):
            ids = _ids(raw, f"{where}, beam {number}")
            if not ids or ids[-1] != query:
                raise InputError(f"{where}, beam {number}: the last id must be the query's own, got {list(ids)}")
            sequences.append(ScoredSequence(ids[:-1], _number(score, f"{where}, score {number}")))
        entries.append((query, sequences[:beam_size], pool))
    return _with_pools(entries, pool_size)


def groups_of_rewards(data: Mapping[str, Any], source: str, *, pool_size: int = 64) -> list[ShotGroup]:
    """The groups of a reward file's object.

    An entry has ``pointer_candidates``; a candidate has ``pointer``, the ids of its shots (positions in the pool if
    ``pointer_global`` is there too), and ``vqa_correct`` and ``vqa_acc_score``, whose sum is the reward. Candidates
    whose scoring failed are left out.
    """
    entries: list[Entry] = []
    for query, entry in _queries(data, source):
        where = f"{source}, query {query}"
        pool = _pool_of(entry, where)
        sequences = []
        for number, candidate in enumerate(_list(entry, "pointer_candidates", where), 1):
            at = f"{where}, candidate {number}"
            if not isinstance(candidate, dict):
                raise InputError(f"{at}: expected an object")
            shots = _shots_of(candidate, pool, at)
            if query in shots:
                raise InputError(f"{at}: the query is a shot of itself")
            if candidate.get("eval_failed") or candidate.get("vqa_eval_mode") in _UNSCORED:
                continue
            if candidate.get("vqa_acc_score") is None:
                raise InputError(
                    f"{at}: no vqa_acc_score",
                    why="What was not measured is not 0, which is the reward of a wrong answer.",
                    fix="Measure it, or mark candidates that could not be scored by eval_failed.",
                )
            accuracy = _number(candidate["vqa_acc_score"], f"{at}, vqa_acc_score")
            correct = _number(candidate.get("vqa_correct") or 0, f"{at}, vqa_correct")
            sequences.append(ScoredSequence(shots, correct + accuracy))
        entries.append((query, sequences, pool))
    return _with_pools(entries, pool_size)


def _shots_of(candidate: Mapping[str, Any], pool: tuple[int, ...] | None, at: str) -> tuple[int, ...]:
    pointer = _ids(candidate.get("pointer"), at)
    if "pointer_global" not in candidate:
        return pointer
    shots = _ids(candidate["pointer_global"], at)
    if pool is not None:
        wrong = [position for position in pointer if not 0 <= position < len(pool)]
        if wrong or tuple(pool[position] for position in pointer) != shots:
            raise InputError(
                f"{at}: pointer and pointer_global name different shots",
                why=f"Positions {list(pointer)} of the pool are not the ids {list(shots)}.",
            )
    return shots


def _with_pools(entries: Sequence[Entry], size: int) -> list[ShotGroup]:
    """Groups in the order of their ids. A missing pool is the query's own shots and others of the file, by chance."""
    shots = sorted({shot for _, sequences, _ in entries for sequence in sequences for shot in sequence.shots})
    groups = []
    for query, sequences, pool in entries:
        if pool is None:
            chosen = {shot for sequence in sequences for shot in sequence.shots}
            others = [shot for shot in shots if shot not in chosen and shot != query]
            count = max(0, min(size - len(chosen), len(others)))
            filled = random.Random(f"pool:{query}").sample(others, count)  # noqa: S311 - not for cryptography
            pool = tuple(sorted([*chosen, *filled]))
        if sequences:
            groups.append(ShotGroup(query, pool, tuple(sequences)))
    return sorted(groups, key=lambda group: group.query)


def _queries(data: Mapping[str, Any], source: str) -> list[tuple[int, Mapping[str, Any]]]:
    queries = [(int(key), entry) for key, entry in data.items() if _QUERY.fullmatch(key)]
    for query, entry in queries:
        if not isinstance(entry, dict):
            raise InputError(f"{source}, query {query}: expected an object, got {type(entry).__name__}")
    if not queries:
        raise InputError(f"{source} has no query", why="The keys of its queries are their ids, as text.")
    return queries


def _pool_of(entry: Mapping[str, Any], where: str) -> tuple[int, ...] | None:
    key = next((key for key in POOL_KEYS if key in entry), None)
    return None if key is None else _ids(entry[key], f"{where}, {key}")


def _list(entry: Mapping[str, Any], key: str, where: str) -> list[Any]:
    if not isinstance(entry.get(key), list):
        raise InputError(f"{where}: {key} must be a list", why=f"Keys there: {', '.join(entry) or 'none'}.")
    return list(entry[key])


def _ids(raw: Any, where: str) -> tuple[int, ...]:
    if not isinstance(raw, list) or not all(type(number) is int for number in raw):
        raise InputError(f"{where}: expected a list of ids, got {str(raw)[:60]}")
    return tuple(raw)


def _number(raw: Any, where: str) -> float:
    with contextlib.suppress(OverflowError):  # an integer of hundreds of digits
        if isinstance(raw, bool | int | float) and math.isfinite(raw):
            return float(raw)
    raise InputError(f"{where}: expected a finite number, got {str(raw)[:60]}")


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
