"""The steps, and those that make files: index, prompt seeds, sets, mock rollouts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine.records import timestamp
from engine.tasks.phaser.mock.rollouts import make_rollouts
from engine.tasks.phaser.problems import read_prompt
from engine.tasks.phaser.seeds.prompt_seeds import make_prompt_seeds, seeds_report
from engine.tasks.phaser.seeds.sets import build_sets, overlap, sets_summary
from engine.tasks.phaser.validation.node_setup import build_api_index
from grpo_training.phaser.files import read_rows, sha256, write_rows, write_text
from grpo_training.phaser.settings import (
    IndexSettings,
    MockSettings,
    PromptSeedSettings,
    SetsSettings,
)
from grpo_training.phaser.validation import validate


def make_index(settings: IndexSettings) -> int:
    """Build the index of Phaser's API."""
    meta = build_api_index(settings.out_dir)
    print(f"Phaser {meta['phaser_version']} -> {settings.out_dir / 'phaser_api.jsonl'}")
    return 0


def make_seeds(settings: PromptSeedSettings) -> int:
    """Write prompt seeds and a report."""
    rows = make_prompt_seeds(settings.count, settings.seed, settings.lang)
    write_rows(settings.out, rows)
    report = {"seed": settings.seed, "lang": settings.lang, **seeds_report(rows), "sha256": sha256(settings.out)}
    _write_json(settings.report_json or settings.out.with_name(f"{settings.out.stem}_report.json"), report)
    print(f"{len(rows)} prompts with {len(report['by_symbol'])} symbols -> {settings.out}")
    return 0


def make_sets(settings: SetsSettings) -> int:
    """Write training and evaluation prompts, and a report in ``reports`` beside the training prompts."""
    seeds = read_rows(settings.prompt_seeds, "prompt-seeds --out")
    complete = []
    for number, row in enumerate(seeds, 1):
        prompt = read_prompt(row, f"{settings.prompt_seeds}, row {number}")
        complete.append({**prompt.model_dump(mode="json"), "id": f"row_{number}", **row})
    sets = build_sets(
        complete,
        train_count=settings.train_count,
        eval_count=settings.eval_count,
        ood_ratio=settings.ood_ratio,
        seed=settings.seed,
        created_at=timestamp(),
    )
    write_rows(settings.out_train, sets.train)
    write_rows(settings.out_eval, sets.evaluation)
    report = {
        "created_at": timestamp(),
        "seed": settings.seed,
        "inputs": {"prompt_seeds": str(settings.prompt_seeds)},
        "outputs": {"train": str(settings.out_train), "eval": str(settings.out_eval)},
        "sha256": {
            "prompt_seeds": sha256(settings.prompt_seeds),
            "train": sha256(settings.out_train),
            "eval": sha256(settings.out_eval),
        },
        "train_summary": sets_summary(sets.train),
        "eval_summary": sets_summary(sets.evaluation),
        "overlap": overlap(sets.train, sets.evaluation),
    }
    _write_json(settings.out_train.parent / "reports/grpo_sets_report.json", report)
    print(f"{len(sets.train)} training prompts -> {settings.out_train}")
    print(f"{len(sets.evaluation)} evaluation prompts -> {settings.out_eval}")
    return 0


def make_mock_rollouts(settings: MockSettings) -> int:
    """Write mock rollouts."""
    rows = make_rollouts(
        read_rows(settings.prompts, "build-sets --out-train"),
        step=settings.step,
        num_prompts=settings.num_prompts,
        group_size=settings.group_size,
        seed=settings.seed,
        created_at=timestamp(),
    )
    print(f"{write_rows(settings.out, rows)} rollouts -> {settings.out}")
    return 0


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "api-index": make_index,
    "prompt-seeds": make_seeds,
    "build-sets": make_sets,
    "mock-rollouts": make_mock_rollouts,
    "validate": validate,
}
