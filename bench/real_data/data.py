"""The public data sets, as problems to learn from and problems of the test."""

from __future__ import annotations

import csv
import json
import random
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from bench.real_data.settings import DataSet

Row = dict[str, Any]
_ANSWERS = ("category", "target", "answer")
_NEIGHBOURS = 3


def rows_of(dataset: DataSet, folder: Path, seed: int) -> tuple[list[Row], list[Row]]:
    """The rows to learn from, and those of the test, as a seed draws them. No text occurs twice.

    Args:
        dataset: its settings.
        folder: of all data sets.
        seed: of the draw.
    """
    files = [
        [{dataset.rename.get(key, key): value for key, value in row.items()} for row in _read(folder / name)]
        for name in dataset.files
    ]
    if dataset.nearest_labels:
        labels = nearest_labels({_answer(row) for row in files[0]}, dataset.nearest_labels)
        files = [[row for row in rows if _answer(row) in labels] for rows in files]
    if dataset.labels:
        known_labels = sorted({_answer(row) for row in files[0]})
        files = [[{**row, dataset.labels: known_labels} for row in rows] for rows in files]
    if dataset.decimals is not None:
        files = [[with_decimals(row, dataset.decimals) for row in rows] for rows in files]
    rng, known = random.Random(seed), set[str]()
    first, *others = [_shuffled(rows, rng, known) for rows in files]
    if dataset.by_label:
        first = in_turn(first)
    train, rest = first[: dataset.train], first[dataset.train :]
    return train, (others[0] if others else rest)[: dataset.test]


def nearest_labels(labels: Collection[str], count: int) -> list[str]:
    """The labels whose names share the most words with the three names that are the nearest to each.

    The likeness of two names is the number of words that both have, divided by that of all their words. Of 77 labels
    of Banking77, 24 are mostly of cards, payments with them, top-ups and withdrawals: ``pending_top_up``,
    ``pending_card_payment``, ``pending_cash_withdrawal``.
    """
    words = {label: set(re.findall(r"[a-z]+", label.casefold())) for label in labels}

    def likeness(label: str) -> float:
        of_label = words[label]
        likes = [len(of_label & other) / len(of_label | other) for name, other in words.items() if name != label]
        return sum(sorted(likes, reverse=True)[:_NEIGHBOURS])

    return sorted(sorted(labels, key=lambda label: (-likeness(label), label))[:count])


def in_turn(rows: Sequence[Row]) -> list[Row]:
    """The rows in their order, but one of each label in each round, so that the first ones have all labels."""
    rounds: defaultdict[str, int] = defaultdict(int)
    placed = []
    for index, row in enumerate(rows):
        rounds[_answer(row)] += 1
        placed.append((rounds[_answer(row)], index, row))
    return [row for *_, row in sorted(placed, key=lambda entry: entry[:2])]


def with_decimals(row: Row, decimals: int) -> Row:
    """A row whose right answer has so many decimals, to which answers are compared."""
    return {**row, _answer_key(row): f"{float(_answer(row)):.{decimals}f}"}


def _shuffled(rows: Sequence[Row], rng: random.Random, known: set[str]) -> list[Row]:
    """The rows in a random order, without texts that are known."""
    chosen = []
    for row in rng.sample(rows, len(rows)):
        text = next(str(value) for key, value in row.items() if key not in ("id", *_ANSWERS))
        if text not in known:
            known.add(text)
            chosen.append(row)
    return chosen


def _read(path: Path) -> list[Row]:
    """The rows of a file; their ids are its name and their number, so that they are the same for all seeds."""
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            rows: list[Row] = list(csv.DictReader(file))
        elif path.suffix == ".json":  # BIG-Bench-Hard
            rows = json.load(file)["examples"]
        else:
            rows = [json.loads(line) for line in file]
    return [{"id": f"{path.stem}-{number}", **row} for number, row in enumerate(rows, 1)]


def _answer_key(row: Row) -> str:
    return next(key for key in _ANSWERS if key in row)


def _answer(row: Row) -> str:
    return str(row[_answer_key(row)])
