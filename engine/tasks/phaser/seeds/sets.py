"""Training and evaluation prompts from prompt seeds: held out, stratified, with combinations of unseen modules."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import InputError
from engine.tasks.phaser.seeds.prompt_seeds import DIFFICULTIES, split_counts

OOD_TYPE = "cross_module_combo"
MAX_OOD_RATIO = 0.8

_MOST_TEXTS, _MOST_SYMBOLS, _SYMBOLS_EACH, _MOST_TAGS = 12, 6, 2, 16
_OOD_TAGS = ("ood", "combo")
_PAIRS_PER_ROW = 200
_CHINESE = re.compile(r"[\u4e00-\u9fff]")

Row = dict[str, Any]


@dataclass(frozen=True)
class Sets:
    """Rows of ``prompts_train.jsonl`` and ``prompts_eval.jsonl``."""

    train: list[Row]
    evaluation: list[Row]


def build_sets(
    seeds: Sequence[Mapping[str, Any]],
    *,
    train_count: int,
    eval_count: int,
    ood_ratio: float,
    seed: int,
    created_at: str,
) -> Sets:
    """Choose prompts for training and evaluation.

    The evaluation prompts are chosen first. A training prompt is neither one of them nor a parent of a combination, has
    another text, and has not the set of modules of a combination.

    Args:
        seeds: rows of ``prompt_seeds.jsonl``.
        train_count, eval_count: at least 1.
        ood_ratio: share of the evaluation prompts that combine two seeds of different modules; at most 0.8.
        seed: of the random choices.
        created_at: time that the rows name.

    Raises:
        InputError: there are too few seeds, or no two of different modules.
    """
    rng = random.Random(seed)  # noqa: S311
    pool = _distinct(seeds)
    rng.shuffle(pool)
    combined_count = round(eval_count * min(max(ood_ratio, 0.0), MAX_OOD_RATIO))
    combinations, parents = _combinations(pool, combined_count, rng)
    uncombined = [row for row in pool if row["id"] not in parents]
    plain = _stratified(uncombined, eval_count - combined_count)
    used = {row["id"] for row in plain}
    unseen = {_module_set(row) for row in combinations}
    free = [row for row in uncombined if row["id"] not in used and _module_set(row) not in unseen]
    train = _stratified(free, train_count)
    if len(plain) < eval_count - combined_count or len(train) < train_count:
        raise InputError(
            f"{len(seeds)} seeds are too few for {train_count} training and {eval_count} evaluation prompts",
            why=f"{len(train)} and {len(plain) + combined_count} could be chosen without a prompt in both.",
            fix="Make more (prompt-seeds --count), or ask for fewer.",
        )
    rng.shuffle(train)
    return Sets(
        [{**row, "created_at": created_at, "meta": {"source": "prompt_seed"}} for row in train],
        [_evaluation_row(number, row, created_at) for number, row in enumerate([*plain, *combinations], 1)],
    )


def sets_summary(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Numbers of rows by difficulty, and of plain and combined ones."""
    listed = list(rows)
    combined = sum(bool(row.get("ood")) for row in listed)
    return {
        "total": len(listed),
        "by_difficulty": dict(Counter(row["difficulty"] for row in listed)),
        "by_ood": {"iid": len(listed) - combined, "ood": combined},
        "symbols": len({symbol for row in listed for symbol in row["must_use_apis"]}),
    }


def overlap(train: Iterable[Mapping[str, Any]], evaluation: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many evaluation prompts share a source, a text, or (if combined) a set of modules with training prompts."""
    rows = list(train)
    ids, texts = {row["id"] for row in rows}, {_text_key(row) for row in rows}
    modules = {_module_set(row) for row in rows}
    listed = list(evaluation)
    return {
        "sources": sum(bool(ids & {row["source_id"], *(row.get("source_ids") or ())}) for row in listed),
        "texts": sum(_text_key(row) in texts for row in listed),
        "modules_of_combinations": sum(bool(row["ood"]) and _module_set(row) in modules for row in listed),
    }


def _distinct(seeds: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The seeds whose id and text no earlier one has."""
    kept: dict[str, Row] = {}
    ids = set()
    for row in seeds:
        if row["id"] not in ids and _text_key(row) not in kept:
            ids.add(row["id"])
            kept[_text_key(row)] = dict(row)
    return list(kept.values())


def _stratified(pool: Sequence[Row], count: int) -> list[Row]:
    """The first rows of each difficulty in the shares 40, 40, 20; other difficulties fill what one lacks."""
    of: dict[str, list[Row]] = {difficulty: [] for difficulty in DIFFICULTIES}
    for row in pool:
        of.get(row["difficulty"], of["medium"]).append(row)
    chosen = [row for name, wanted in zip(DIFFICULTIES, split_counts(count), strict=True) for row in of[name][:wanted]]
    taken = {row["id"] for row in chosen}
    others = (row for row in pool if row["id"] not in taken)
    return [*chosen, *(row for _, row in zip(range(count - len(chosen)), others, strict=False))]


def _combinations(pool: Sequence[Row], count: int, rng: random.Random) -> tuple[list[Row], set[str]]:
    """Rows that combine two seeds, each of another set of modules, and the ids of their parents."""
    existing = {_module_set(row) for row in pool}
    combinations: list[Row] = []
    parents: set[str] = set()
    for prefers_unseen in (True, False):  # a union that no seed has is better; with few modules there may be none
        for _ in range(_PAIRS_PER_ROW * count):
            if len(combinations) == count:
                break
            first, second = rng.sample(pool, 2) if len(pool) > 1 else (pool[0], pool[0])
            union = _module_set(first) | _module_set(second)
            is_new = union not in existing if prefers_unseen else union not in {_module_set(first), _module_set(second)}
            if is_new and not {first["id"], second["id"]} & parents:
                combinations.append(_combined(first, second))
                parents |= {first["id"], second["id"]}
    if len(combinations) < count:
        raise InputError(
            f"Only {len(combinations)} of {count} combinations of different modules could be made",
            fix="Make more seeds (prompt-seeds --count), or lower --ood-ratio.",
        )
    return combinations, parents


def _combined(first: Row, second: Row) -> Row:
    is_chinese = bool(_CHINESE.search(first["task"]))
    clause = "两部分在同一个场景中运行。" if is_chinese else "Both parts run in the same scene."
    joint = "此外：" if is_chinese else "In the same game: "
    difficulties = [row["difficulty"] for row in (first, second)]
    ranks = [DIFFICULTIES.index(name) if name in DIFFICULTIES else 1 for name in difficulties]
    tags = list(dict.fromkeys([*first["tags"], *second["tags"]]))[: _MOST_TAGS - len(_OOD_TAGS)]
    symbols = [*first["must_use_apis"][:_SYMBOLS_EACH], *second["must_use_apis"][:_SYMBOLS_EACH]]
    return {
        "source_ids": [first["id"], second["id"]],
        "difficulty": DIFFICULTIES[max(ranks)],
        "modules": list(dict.fromkeys([*first["modules"], *second["modules"]])),
        "task": f"{first['task']}\n{joint}{second['task']}",
        "constraints": [*_union(first["constraints"], second["constraints"], _MOST_TEXTS), clause],
        "must_use_apis": list(dict.fromkeys(symbols))[:_MOST_SYMBOLS],
        "eval_hints": _union(first["eval_hints"], second["eval_hints"], _MOST_TEXTS),
        "tags": [*tags, *_OOD_TAGS],
    }


def _evaluation_row(number: int, row: Row, created_at: str) -> Row:
    is_combined = "source_ids" in row
    copied = ("difficulty", "modules", "task", "constraints", "must_use_apis", "eval_hints", "tags")
    return {
        "id": f"eval_{number:06d}",
        "source_id": None if is_combined else row["id"],
        **({"source_ids": row["source_ids"]} if is_combined else {}),
        **{name: row[name] for name in copied},
        "ood": is_combined,
        "ood_type": OOD_TYPE if is_combined else None,
        "created_at": created_at,
        "meta": {} if is_combined else {"augmented": False},
    }


def _union(first: Sequence[str], second: Sequence[str], most: int) -> list[str]:
    return list(dict.fromkeys([*first, *second]))[:most]


def _module_set(row: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(row["modules"])


def _text_key(row: Mapping[str, Any]) -> str:
    return " ".join(str(row["task"]).casefold().split())
