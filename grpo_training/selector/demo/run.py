"""The demo: SFT, RCE and GRPO on a synthetic utility, as commands run them, compared on queries that were held out."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.storage.append_log import replace_file
from grpo_training.selector.choice import choose_shots
from grpo_training.selector.data.beam_file import beam_entry
from grpo_training.selector.data.embeddings import Array, EmbeddingTable
from grpo_training.selector.data.groups import ShotGroup, make_batch
from grpo_training.selector.demo.synthetic import SyntheticUtility
from grpo_training.selector.model.checkpoint import load_model
from grpo_training.selector.model.decoding import beam_search, sample_sequences
from grpo_training.selector.model.pointer import PointerSelector
from grpo_training.selector.settings import DemoSettings, SftSettings, TrainSettings
from grpo_training.selector.training.run import post_train, train_sft

WAYS = ("random", "similarity", "sft", "rce", "grpo", "oracle")
"""Ways of choosing, from the one that is expected to be the worst."""
_TEST_SHARE = 0.2
_RESAMPLES = 2000


def run_demo(settings: DemoSettings) -> int:
    """Train and compare, once for each seed. Returns the exit code."""
    began = time.monotonic()
    results = []
    for seed in range(settings.seed, settings.seed + settings.seeds):
        results.append(_one_seed(settings, seed))
        means = "  ".join(f"{way} {results[-1][way].mean():.3f}" for way in WAYS)
        print(f"seed {seed}: {means}  ({time.monotonic() - began:.0f} s)", flush=True)
    intervals = compare(results, settings.seed)
    shown = {way: float(np.mean([result[way].mean() for result in results])) for way in WAYS}
    span = shown["oracle"] - shown["random"]
    print(f"\nmean utility of the chosen pair, {len(results)} seeds x {len(results[0]['oracle'])} held-out queries")
    for way in reversed(WAYS):
        print(f"  {way:12} {shown[way]:.4f}   {(shown[way] - shown['random']) / span:6.1%} of oracle - random")
    print("paired differences with 95 % bootstrap intervals over seeds and queries")
    for one in intervals:
        verdict = "holds" if one.low > 0 else "does not hold" if one.high < 0 else "not decided"
        print(f"  {one.better:>10} - {one.worse:10} {one.value:+.4f}  [{one.low:+.4f}, {one.high:+.4f}]  {verdict}")
    record = {
        "settings": settings.model_dump(mode="json"),
        "seconds": round(time.monotonic() - began, 1),
        "utility": shown,
        "per_seed": [{way: float(result[way].mean()) for way in WAYS} for result in results],
        "differences": [vars(one) for one in intervals],
    }
    settings.output.mkdir(parents=True, exist_ok=True)
    replace_file(settings.output / "demo.json", json.dumps(record, indent=2).encode() + b"\n")
    print(f"{record['seconds']} s; figures in {settings.output / 'demo.json'}")
    return 0


@dataclass(frozen=True)
class Difference:
    """The mean paired difference of two ways of choosing, with its bootstrap interval."""

    better: str
    worse: str
    value: float
    low: float
    high: float


def compare(results: list[dict[str, Any]], seed: int) -> list[Difference]:
    """Each way of choosing minus the one before it in :data:`WAYS`.

    Seeds are resampled, and queries inside each of them, as a seed is another world with a model of its own.
    """
    rng = np.random.default_rng(seed)
    found = []
    for worse, better in itertools.pairwise(WAYS):
        gains = np.stack([result[better] - result[worse] for result in results])
        count, queries = gains.shape
        means = np.empty(_RESAMPLES)
        for number in range(_RESAMPLES):
            worlds = gains[rng.integers(count, size=count)]
            places = rng.integers(queries, size=(count, queries))
            means[number] = np.take_along_axis(worlds, places, axis=1).mean()
        low, high = np.quantile(means, [0.025, 0.975])
        found.append(Difference(better, worse, float(gains.mean()), float(low), float(high)))
    return found


def _one_seed(settings: DemoSettings, seed: int) -> dict[str, Any]:
    """Way of choosing -> the true utility of its pair for each held-out query."""
    folder = settings.output / f"seed-{seed}"
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    world = SyntheticUtility.make(seed, settings.queries, pool=settings.pool, noise=settings.noise)
    rng = np.random.default_rng([seed, 1])
    train = round(settings.queries * (1 - _TEST_SHARE))
    np.save(data / "embeddings.npy", _matrix(world))
    _write_beams(data / "beams.json", world, train, rng)
    common = {
        "embeddings": data / "embeddings.npy",
        "seed": seed,
        "fresh": True,
    }
    train_sft(
        SftSettings.model_validate(
            {
                **common,
                "beam_data": data / "beams.json",
                "output_dir": folder / "sft",
                "epochs": settings.sft_epochs,
                "learning_rate": settings.learning_rate,
            }
        )
    )
    model, _ = load_model(folder / "sft/best_model.ckpt")
    _write_rewards(data / "rewards.json", world, train, model, rng, seed)
    post_train(
        TrainSettings.model_validate(
            {
                **common,
                "sft_ckpt": folder / "sft/best_model.ckpt",
                "beam_data": data / "rewards.json",
                "output_dir": folder / "post",
                "reward_mode": "soft_only",
                "rce_epochs": settings.rce_epochs,
                "grpo_epochs": settings.grpo_epochs,
                "grpo_lr": settings.grpo_lr,
            }
        )
    )
    return _evaluate(world, range(train, settings.queries), folder)


def _write_beams(path: Path, world: SyntheticUtility, train: int, rng: np.random.Generator) -> None:
    entries = {}
    for number in range(train):
        group, beams = _group(world, number), world.beams(number, rng)
        named = [([group.pool[place] for place in places], score) for places, score in beams]
        entries[str(group.query)] = beam_entry(group.query, named, group.pool)
    replace_file(path, json.dumps(entries).encode())


def _write_rewards(
    path: Path, world: SyntheticUtility, train: int, model: PointerSelector, rng: np.random.Generator, seed: int
) -> None:
    """Per query: the beams of the model, samples at two temperatures, retrieval and chance, each measured once."""
    groups = [_group(world, query) for query in range(train)]
    table = EmbeddingTable(_matrix(world))
    generator = torch.Generator().manual_seed(seed)
    entries = {}
    for start in range(0, train, 64):
        part = groups[start : start + 64]
        batch = make_batch(part, table)
        with torch.no_grad():
            encoded = model.encode(batch.query_BD, batch.pool_BKD, batch.pool_mask_BK)
        drawn = [("beam", beam_search(model, encoded, 2, 5))]
        for temperature in (1.0, 1.3):
            samples = sample_sequences(model, encoded, 2, 6, temperature=temperature, generator=generator)
            drawn.append(("sample", samples))
        for row, group in enumerate(part):
            number = start + row
            found = {tuple(places): how for how, one in reversed(drawn) for places in one.places_BNS[row].tolist()}
            near = np.argsort(-world.similarity(number))[:3].tolist()
            for pair in ((near[0], near[1]), (near[1], near[2])):
                found.setdefault(pair, "retrieval")
            for _ in range(3):
                found.setdefault(tuple(rng.choice(len(group.pool), size=2, replace=False).tolist()), "random")
            entries[str(group.query)] = {
                "candidate_pool_ids": list(group.pool),
                "pointer_candidates": [
                    {
                        "pointer": list(places),
                        "pointer_global": [group.pool[place] for place in places],
                        "gen_method": how,
                        "vqa_acc_score": world.measured(number, places, rng),
                    }
                    for places, how in found.items()
                ],
            }
    replace_file(path, json.dumps(entries).encode())


def _group(world: SyntheticUtility, number: int) -> ShotGroup:
    """A query without sequences. The ids of queries follow those of the shots, so that no query is a shot."""
    return ShotGroup(len(world.shots) + number, tuple(int(one) for one in world.pools[number]), ())


def _matrix(world: SyntheticUtility) -> Array:
    return np.concatenate([world.shots, world.queries]).astype(np.float32)


def _evaluate(world: SyntheticUtility, queries: range, folder: Path) -> dict[str, Any]:
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    chosen = {}
    checkpoints = {"sft": "sft/best_model.ckpt", "rce": "post/rce_final.ckpt", "grpo": "post/best_model.ckpt"}
    for way, name in checkpoints.items():
        chosen[way] = _pairs_of(load_model(folder / name)[0], world, queries)
    for row, query in enumerate(queries):
        utility = world.pairs(query)
        near = np.argsort(-world.similarity(query))
        found["random"].append(float(utility[np.isfinite(utility)].mean()))
        found["similarity"].append(float(utility[near[0], near[1]]))
        found["oracle"].append(float(utility.max()))
        for way, pairs in chosen.items():
            found[way].append(float(utility[pairs[row][0], pairs[row][1]]))
    return {way: np.array(values) for way, values in found.items()}


def _pairs_of(model: PointerSelector, world: SyntheticUtility, queries: range) -> list[list[int]]:
    """The places of the shots that a selector chooses for each query."""
    groups = [_group(world, query) for query in queries]
    chosen = choose_shots(model, groups, EmbeddingTable(_matrix(world)), 2, 5)
    return [[group.pool.index(shot) for shot in found[0][0]] for group, found in zip(groups, chosen, strict=True)]
