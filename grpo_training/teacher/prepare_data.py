"""Selects problems for training and validation: one run of ``prepare_data``."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.contract.datasets import DataPreparation
from engine.datasets import load_dataset
from engine.errors import InputError, MissingInputError
from engine.records import Problem
from engine.storage.append_log import replace_file
from grpo_training.cli.bar import progress_bar
from grpo_training.cli.terminal_text import say
from grpo_training.teacher.settings import PrepareSettings

_SHINGLE = 3  # words; problems of MBPP have about twelve
_MAX_THREADS = 64


@dataclass
class DropList:
    """The dropped problems, with the reasons."""

    entries: list[dict[str, str]] = field(default_factory=list)

    def add(self, problem_id: str, reason: str, why: str) -> None:
        """Add one: a short code and a sentence."""
        self.entries.append({"id": problem_id, "reason": reason, "why": why[:300]})

    @property
    def counts(self) -> dict[str, int]:
        """The number of problems of each reason."""
        return dict(Counter(entry["reason"] for entry in self.entries).most_common())


def run(settings: PrepareSettings, preparations: Sequence[DataPreparation[Any]]) -> int:
    """Read, check, split and write. Returns the exit code.

    Raises:
        ScaffoldError: a dataset is missing, or programs cannot be run on this machine.
    """
    drops = DropList()
    counts: Counter[str] = Counter()
    train: list[Problem] = []
    val: list[Problem] = []
    rows: dict[str, dict[str, Any]] = {}
    for preparation in preparations:
        problems = _load(settings, preparation, drops)
        counts.update(_dataset(problem) for problem in problems)
        usable = without_faults(problems, preparation, drops)
        rows |= {problem.id: preparation.row(problem) for problem in usable}
        for part, found in zip((train, val), split(usable, settings.seed, settings.train_share), strict=True):
            part += found
    train = without_near_duplicates(train, val, settings.near_duplicate, drops)
    if not train or not val:
        raise InputError(f"Nothing to write: {len(train)} problems for training, {len(val)} for validation")
    settings.output_dir.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", train), ("val", val)):
        _write_rows(settings.output_dir / f"{name}.jsonl", [rows[problem.id] for problem in part])
    report = {
        "settings": settings.model_dump(mode="json", exclude={"output_dir"}),
        "usable_rows": dict(counts),
        "train": _figures(train),
        "val": _figures(val),
        "dropped": drops.counts,
        "dropped_problems": drops.entries,
    }
    replace_file(settings.output_dir / "data_report.json", (json.dumps(report, indent=2) + "\n").encode())
    print(f"train: {len(train)} problems   val: {len(val)} problems   dropped: {len(drops.entries)}")
    for reason, count in drops.counts.items():
        say(f"  {reason}: {count}")
    print(f"written to {settings.output_dir}")
    return 0


def _load(settings: PrepareSettings, preparation: DataPreparation[Any], drops: DropList) -> list[Problem]:
    names = set(preparation.options.model_fields)
    options = preparation.options.model_validate(settings.model_dump(include=names))
    problems: list[Problem] = []
    for name, flag in preparation.datasets(options).items():
        with progress_bar(desc=f"reading {name}", unit=" rows") as bar:
            try:
                found = load_dataset(name, row_read=bar.update)
            except MissingInputError as error:
                hint = f" Or leave it out with {flag}." if flag else ""
                raise MissingInputError(error.what, why=error.why, fix=error.fix + hint) from None
        problems += found.problems
        for entry in found.dropped:
            drops.add(*entry)
    return problems


def without_faults(problems: Sequence[Problem], preparation: DataPreparation[Any], drops: DropList) -> list[Problem]:
    """The problems that the task can use.

    Raises:
        ConfigurationError: programs cannot be run on this machine.
    """
    usable = []
    with (
        ThreadPoolExecutor(min(_MAX_THREADS, 2 * (os.cpu_count() or 1))) as pool,
        progress_bar(total=len(problems), desc="checking problems", unit=" problems") as bar,
    ):
        try:
            for problem, fault in zip(problems, pool.map(preparation.fault, problems), strict=True):
                bar.update()
                if fault is None:
                    usable.append(problem)
                else:
                    drops.add(problem.id, *fault)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return usable


def split(problems: Iterable[Problem], seed: int, train_share: float) -> tuple[list[Problem], list[Problem]]:
    """Training and validation problems: ``sha256("seed|id")``, as a number in [0, 1), is below the share or not.

    Each problem is split by itself, so that further problems do not move others.
    """
    parts: tuple[list[Problem], list[Problem]] = [], []
    for problem in problems:
        digest = hashlib.sha256(f"{seed}|{problem.id}".encode()).digest()
        parts[int.from_bytes(digest[:8], "big") / 2**64 >= train_share].append(problem)
    return parts


def without_near_duplicates(
    train: Sequence[Problem], val: Sequence[Problem], threshold: float, drops: DropList
) -> list[Problem]:
    """The training problems whose text is not similar to that of a validation problem.

    Two texts are similar if the Jaccard index of their sets of word triples reaches the threshold. Exact without
    comparing all pairs: two such sets share one of their rarest elements (prefix filter of Chaudhuri, Ganti,
    Kaushik 2006).
    """
    sets = {problem.id: _shingles(problem.text) for problem in (*train, *val)}
    frequency = Counter(shingle for shingles in sets.values() for shingle in shingles)

    def rarest(shingles: frozenset[str]) -> list[str]:
        ordered = sorted(shingles, key=lambda shingle: (frequency[shingle], shingle))
        return ordered[: len(ordered) - math.ceil(threshold * len(ordered) - 1e-9) + 1]

    index: dict[str, list[str]] = {}
    for problem in val:
        for shingle in rarest(sets[problem.id]):
            index.setdefault(shingle, []).append(problem.id)
    kept = []
    for problem in train:
        own = sets[problem.id]
        near = {other for shingle in rarest(own) for other in index.get(shingle, ())}
        similar = [other for other in sorted(near) if _jaccard(own, sets[other]) >= threshold]
        if similar:
            drops.add(problem.id, "near_duplicate", f"its text is similar to that of {similar[0]} in val")
        else:
            kept.append(problem)
    return kept


def _shingles(text: str) -> frozenset[str]:
    words = re.findall(r"\w+", text.casefold())
    return frozenset(" ".join(words[at : at + _SHINGLE]) for at in range(max(1, len(words) - _SHINGLE + 1)))


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)


def _write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    replace_file(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())


def _figures(problems: Sequence[Problem]) -> dict[str, Any]:
    return {
        "problems": len(problems),
        "by_dataset": dict(Counter(_dataset(problem) for problem in problems)),
        "by_difficulty": dict(Counter(str(problem.meta.get("difficulty") or "none") for problem in problems)),
        "tests_left_out": sum(int(problem.meta.get("tests_left_out", 0)) for problem in problems),
    }


def _dataset(problem: Problem) -> str:
    return str(problem.meta.get("dataset", problem.task))
