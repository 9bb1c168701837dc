"""Prompts for games, made of the texts of features."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from engine.errors import InputError
from engine.tasks.phaser.problems import Difficulty
from engine.tasks.phaser.seeds.features import Feature, Language, Values, all_features, draw_values

DIFFICULTIES: tuple[Difficulty, ...] = ("easy", "medium", "hard")
_SHARES = (0.4, 0.4)  # easy, medium; hard has the rest
_FEATURES: Mapping[Difficulty, int] = MappingProxyType({"easy": 1, "medium": 2, "hard": 3})
_MUST_USE = 2  # symbols at most
_TEXTURES_SHARE, _SIGNALS_SHARE = 0.3, 0.2
_ATTEMPTS_PER_PROMPT = 100

_OPENINGS: Mapping[Language, tuple[str, ...]] = MappingProxyType(
    {
        "en": (
            "Write a Phaser 3 game in which {clauses}.",
            "Build a small game with Phaser 3 in which {clauses}.",
            "Program a Phaser 3 scene in which {clauses}.",
            "I need a Phaser 3 demo in which {clauses}.",
        ),
        "zh": (
            "用 Phaser 3 写一个小游戏：{clauses}。",
            "请实现一个 Phaser 3 场景：{clauses}。",
            "编写一个 Phaser 3 演示程序：{clauses}。",
            "用 Phaser 3 制作以下内容：{clauses}。",
        ),
    }
)

_CONSTRAINTS: Mapping[Language, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "en": {
            "all": (
                "Use Phaser 3; the global Phaser is already loaded.",
                "Load no files from disk or network.",
                "The scene has the methods preload and create.",
                "One self-contained program: scene, configuration and new Phaser.Game.",
            ),
            "state": ("The state of the game can be read from its objects.",),
            "deterministic": ("The game behaves in the same way in every run with the same input.",),
            "textures": ("Generate at least one texture in code.",),
            "signals": ("Count the updates in window.__signals__.frames.",),
        },
        "zh": {
            "all": (
                "使用 Phaser 3；全局变量 Phaser 已经加载。",
                "不得从磁盘或网络加载任何文件。",
                "场景要有 preload 和 create 方法。",
                "一个完整独立的程序：场景、配置和 new Phaser.Game。",
            ),
            "state": ("游戏状态可以从游戏对象中读取。",),
            "deterministic": ("相同输入下每次运行的行为都相同。",),
            "textures": ("至少用代码生成一个纹理。",),
            "signals": ("在 window.__signals__.frames 中记录 update 的次数。",),
        },
    }
)


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


def coverage_rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """A table of modules: ``module, easy, medium, hard, total``, with its head."""
    counts = Counter((module, row["difficulty"]) for row in rows for module in row["modules"])
    yield ["module", *DIFFICULTIES, "total"]
    for module in sorted({module for module, _ in counts}):
        numbers = [counts[module, difficulty] for difficulty in DIFFICULTIES]
        yield [module, *map(str, numbers), str(sum(numbers))]


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
    texts = _CONSTRAINTS[language]
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
        "task": rng.choice(_OPENINGS[language]).format(clauses=_joined(clauses, language)),
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
