"""Prompts for games, made of the texts of features."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from engine.errors import InputError
from engine.tasks.phaser.problems import Difficulty
from engine.tasks.phaser.seeds.features import Feature, Language, Values, all_features, draw_values

DIFFICULTIES: tuple[Difficulty, ...] = ("easy", "medium", "hard")
_SHARES = (0.4, 0.4)  # easy, medium; hard has the rest
_FEATURES: Mapping[Difficulty, int] = MappingProxyType({"easy": 1, "medium": 2, "hard": 3})
_MUST_USE = 2  # symbols at most
_TEXTURES_SHARE, _SIGNALS_SHARE = 0.3, 0.2
_ATTEMPTS_PER_PROMPT = 100


def make_prompt_seeds(count: int, seed: int, language: Language = "en") -> list[dict[str, Any]]:
    """Rows of ``prompt_seeds.jsonl``: easy ones first, then medium, then hard ones, with ids from ``seed_000001``.

    Every feature is drawn once before one is drawn again, so that the symbols are evenly used.

    Args:
        count: number of prompts: 40 % easy, 40 % medium, the rest hard.
        seed: of the random choices.
        language: of texts and constraints.

    Raises:
        InputError: the features do not give so many different prompts.
    """
    rng = random.Random(f"{seed}:{language}")  # noqa: S311
    deck = _deck(rng)
    rows: list[dict[str, Any]] = []
    for difficulty, wanted in zip(DIFFICULTIES, split_counts(count), strict=True):
        texts: set[str] = set()
        for _ in range(_ATTEMPTS_PER_PROMPT * wanted):
            if len(texts) == wanted:
                break
            row = _prompt(rng, deck, difficulty, language)
            if row["task"] not in texts:
                texts.add(row["task"])
                rows.append({"id": f"seed_{len(rows) + 1:06d}", **row})
        if len(texts) < wanted:
            raise InputError(f"The features give only {len(texts)} different {difficulty} prompts, not {wanted}")
    return rows


def split_counts(count: int) -> tuple[int, int, int]:
    """The numbers of easy, medium and hard prompts."""
    easy, medium = (round(share * count) for share in _SHARES)
    return easy, medium, count - easy - medium


def seeds_report(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Numbers of prompts by difficulty, module and symbol."""
    return {
        "total": len(rows),
        "by_difficulty": dict(Counter(row["difficulty"] for row in rows)),
        "by_module": dict(Counter(module for row in rows for module in row["modules"]).most_common()),
        "by_symbol": dict(Counter(symbol for row in rows for symbol in row["must_use_apis"]).most_common()),
    }


@cache
def _texts() -> Mapping[str, Any]:
    """The sentences of prompts by language."""
    return dict(yaml.safe_load(Path(__file__).with_name("texts.yaml").read_text(encoding="utf-8")))


def _deck(rng: random.Random) -> Iterator[Feature]:
    """The features in random order, again and again."""
    while True:
        features = list(all_features())
        rng.shuffle(features)
        yield from features


def _prompt(rng: random.Random, deck: Iterator[Feature], difficulty: Difficulty, language: Language) -> dict[str, Any]:
    chosen: dict[str, Feature] = {}
    while len(chosen) < _FEATURES[difficulty]:
        feature = next(deck)
        chosen[feature.name] = feature
    features = list(chosen.values())
    values: list[Values] = []
    for _ in features:
        values.append(draw_values(rng, without={drawn.en["color"] for drawn in values}))
    clauses = [value.text(feature, language) for feature, value in zip(features, values, strict=True)]
    texts = _texts()[language]["constraints"]
    constraints = [*texts["all"]]
    if difficulty != "easy":
        constraints += texts["state"]
    if difficulty == "hard":
        constraints += texts["deterministic"]
    if rng.random() < _TEXTURES_SHARE:
        constraints += texts["textures"]
    if difficulty != "easy" and rng.random() < _SIGNALS_SHARE:
        constraints += texts["signals"]
    must_use = [feature.symbol for feature in rng.sample(features, min(_MUST_USE, len(features)))]
    return {
        "difficulty": difficulty,
        "modules": list(dict.fromkeys(["Scene", *(module for feature in features for module in feature.modules)])),
        "task": rng.choice(_texts()[language]["openings"]).format(clauses=_joined(clauses, language)),
        "constraints": constraints,
        "must_use_apis": must_use,
        "eval_hints": clauses,
        "tags": [feature.name for feature in features],
        "notes": "",
    }


def _joined(clauses: Sequence[str], language: Language) -> str:
    if language == "zh":
        return "；".join(clauses)
    *first, last = clauses
    return f"{'; '.join(first)}; and {last}" if first else last
