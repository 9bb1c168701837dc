"""Selects problems for training and validation: one run of ``prepare_data``."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from engine.cores import usable_cores
from engine.datasets import load_dataset
from engine.errors import InputError, MissingInputError
from engine.records import Problem
from engine.storage.append_log import write_file
from engine.task_datasets import DataPreparation
from grpo_training.cli.bar import progress_bar
from grpo_training.cli.terminal_text import say
from grpo_training.teacher.settings import PrepareSettings

_SHINGLE = 3  # words; problems of MBPP have about twelve
_MAX_THREADS = 64


Dropped = tuple[str, str, str]
"""A problem that was dropped: its id, a short code and a sentence."""


def run(settings: PrepareSettings, preparations: Sequence[DataPreparation]) -> int:
    """Read, check, split and write. Returns the exit code.

    Raises:
        ScaffoldError: a dataset is missing, or programs cannot be run on this machine.
    """
    drops: list[Dropped] = []
    counts: Counter[str] = Counter()
    train: list[Problem] = []
    val: list[Problem] = []
    rows: dict[str, dict[str, Any]] = {}
    for default in preparations:
        preparation = default.model_validate(settings.model_dump(include=set(type(default).model_fields)))
        problems = _load(preparation, drops)
        counts.update(_dataset(problem) for problem in problems)
        usable = without_faults(problems, preparation, drops)
        rows |= {problem.id: preparation.row(problem) for problem in usable}
        to_train, to_val = split(usable, settings.seed, settings.train_share)
        train += to_train
        val += to_val
    train = without_near_duplicates(train, val, settings.near_duplicate, drops)
    if not train or not val:
        raise InputError(f"Nothing to write: {len(train)} problems for training, {len(val)} for validation")
    for name, problems in (("train", train), ("val", val)):
        lines = (json.dumps(rows[problem.id], ensure_ascii=False) + "\n" for problem in problems)
        write_file(settings.output_dir / f"{name}.jsonl", "".join(lines).encode())
    reasons = Counter(reason for _, reason, _ in drops)
    report = {
        "settings": settings.model_dump(mode="json", exclude={"output_dir"}),
        "usable_rows": dict(counts),
        "train": _figures(train),
        "val": _figures(val),
        "dropped": dict(reasons.most_common()),
        "dropped_problems": [{"id": problem, "reason": reason, "why": why[:300]} for problem, reason, why in drops],
    }
    write_file(settings.output_dir / "data_report.json", (json.dumps(report, indent=2) + "\n").encode())
    print(f"train: {len(train)} problems   val: {len(val)} problems   dropped: {len(drops)}")
    for reason, count in reasons.most_common():
        say(f"  {reason}: {count}")
    print(f"written to {settings.output_dir}")
    return 0


def _load(preparation: DataPreparation, drops: list[Dropped]) -> list[Problem]:
    problems: list[Problem] = []
    for name, flag in preparation.datasets().items():
        with progress_bar(desc=f"reading {name}", unit=" rows") as bar:
            try:
                loaded = load_dataset(name, row_read=bar.update)
            except MissingInputError as error:
                hint = f" Or leave it out with {flag}." if flag else ""
                raise MissingInputError(error.what, why=error.why, fix=error.fix + hint) from None
        problems += loaded.problems
        drops += loaded.dropped
    return problems


def without_faults(problems: Sequence[Problem], preparation: DataPreparation, drops: list[Dropped]) -> list[Problem]:
    """The problems that the task can use.

    Raises:
        ConfigurationError: programs cannot be run on this machine.
    """
    usable = []
    with ThreadPoolExecutor(min(_MAX_THREADS, 2 * usable_cores())) as pool:
        faults = pool.map(preparation.fault, problems)
        bar = progress_bar(faults, total=len(problems), desc="checking problems", unit=" problems")
        try:
            for problem, fault in zip(problems, bar, strict=True):
                if fault is None:
                    usable.append(problem)
                else:
                    drops.append((problem.id, *fault))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return usable


def split(problems: Iterable[Problem], seed: int, train_share: float) -> tuple[list[Problem], list[Problem]]:
    """Training and validation problems: ``sha256("seed|id")``, as a number in [0, 1), is below the share or not.

    Each problem is split by itself, so that further problems do not move others.
    """
    sides: tuple[list[Problem], list[Problem]] = [], []
    for problem in problems:
        digest = hashlib.sha256(f"{seed}|{problem.id}".encode()).digest()
        sides[int.from_bytes(digest[:8], "big") / 2**64 >= train_share].append(problem)
    return sides


def without_near_duplicates(
    train: Sequence[Problem], val: Sequence[Problem], threshold: float, drops: list[Dropped]
) -> list[Problem]:
    """The training problems whose text is not similar to that of a validation problem.

    Two texts are similar if the Jaccard index of their sets of word triples reaches the threshold.
    """
    val_sets = {problem.id: _shingles(problem.text) for problem in val}
    having: dict[str, list[str]] = {}
    for problem_id, shingles in val_sets.items():
        for shingle in shingles:
            having.setdefault(shingle, []).append(problem_id)
    kept = []
    for problem in train:
        shingles = _shingles(problem.text)
        shared = Counter(problem_id for shingle in shingles for problem_id in having.get(shingle, ()))
        similar = [
            problem_id
            for problem_id, common in shared.items()
            if common / (len(shingles) + len(val_sets[problem_id]) - common) >= threshold
        ]
        if similar:
            drops.append((problem.id, "near_duplicate", f"its text is similar to that of {min(similar)} in val"))
        else:
            kept.append(problem)
    return kept


def _shingles(text: str) -> frozenset[str]:
    words = re.findall(r"\w+", text.casefold())
    return frozenset(" ".join(words[at : at + _SHINGLE]) for at in range(max(1, len(words) - _SHINGLE + 1)))


def _figures(problems: Sequence[Problem]) -> dict[str, Any]:
    return {
        "problems": len(problems),
        "by_dataset": dict(Counter(_dataset(problem) for problem in problems)),
        "by_difficulty": dict(Counter(str(problem.meta.get("difficulty") or "none") for problem in problems)),
        "tests_left_out": sum(int(problem.meta.get("tests_left_out", 0)) for problem in problems),
    }


def _dataset(problem: Problem) -> str:
    return str(problem.meta.get("dataset", problem.task))
