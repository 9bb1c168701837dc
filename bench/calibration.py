"""Are verdicts and intervals as reliable as they say? Gates without an effect, and intervals of planted effects.

python -m bench.calibration --gates 400 --worlds 200

A gate costs up to a second of processor time: 80 requests of 8 answers each, through the command. On two cores
400 gates took 1.5 minutes, and 25 beside other programs. ``--gates 0`` leaves them out.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

from bench.learning_world import Planted, World, in_process
from engine.experience.events import GateEvent
from engine.experience.library import ExperienceLibrary
from engine.experience.lot import difference, half_of, half_of_rollout
from engine.experience.trial import Trials
from grpo_training.gate import __main__ as gate

_PRIOR = ((0.15, -0.30, -0.02), (0.35, 0.0, 0.0), (0.50, 0.06, 0.50))
"""Probability, least and largest effect of the parts of the prior."""
_EXPERIENCES, _IN_GROUP, _ROLLOUTS = 40, 4, 4


def gates(count: int, problems: int, samples: int) -> Counter[str]:
    """The verdicts of gates on libraries of experiences without effect, through the command."""
    verdicts: Counter[str] = Counter()
    for seed in range(count):
        world, folder = World(seed, 6, 0.0), Path(tempfile.mkdtemp(prefix="bench-gate-"))
        codes = [f"x{seed:04x}{number:03x}" for number in range(8)]
        world.planted = {code: Planted([0.002] * 6, -1) for code in codes}  # as much as its place in the prompt costs
        rows = [{"id": f"p{n}", "problem": world.text(n), "answer": "7"} for n in range(problems)]
        (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        entries = [{"id": f"G1-{n:03d}", "content": f"Do {code} first."} for n, code in enumerate(codes, 1)]
        path = folder / "libraries/generator_1_experiences.json"
        path.parent.mkdir()
        path.write_text(json.dumps(entries))
        with (
            in_process(world) as url,
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            entry = {"api_key": "EMPTY", "base_url": url, "model": "m", "max_concurrency": 32}
            (folder / "api.json").write_text(json.dumps({"generator_1": entry}))
            words = ["--api-config", folder / "api.json", "--dataset", folder / "problems.jsonl"]
            words += ["--cache-dir", folder / "cache", "--experiences-dir", folder / "libraries"]
            gate.main([str(word) for word in [*words, "--samples", samples, "--seed", seed]])
        [event] = [entry.event for entry in ExperienceLibrary(path).history() if isinstance(entry.event, GateEvent)]
        verdicts[event.verdict] += 1
    return verdicts


def intervals(
    worlds: int, after: Sequence[int], effect: Callable[[random.Random], float], *, is_bounded: bool = False
) -> tuple[dict[int, float], dict[int, float]]:
    """By number of differences: the share of intervals that hold the planted effect; and how well means rank effects.

    The second is the probability that of two experiences, one that helps and one that does not, the helpful one has the
    larger mean.

    Args:
        worlds: their number.
        after: numbers of differences.
        effect: draws the effect of an experience.
        is_bounded: answers are right or wrong, with a probability between 0.02 and 0.98; else scores are normal, so
            that the effect of an experience is the same beside all others.
    """
    held: dict[int, list[bool]] = {count: [] for count in after}
    ranked: dict[int, list[float]] = {count: [] for count in after}
    for seed in range(worlds):
        rng = random.Random(seed)
        effects = {f"e{n}": effect(rng) for n in range(_EXPERIENCES)}
        trials, counts = Trials(), Counter[str]()
        means_by_count: dict[int, dict[str, float]] = {count: {} for count in after}
        number = 0
        while min((counts[name] for name in effects), default=0) < max(after):
            chosen = rng.sample(list(effects), _IN_GROUP)
            halves = {name: half_of(seed, "generator_1", 0, str(number), name) for name in chosen}
            number += 1
            level, sides = rng.gauss(0.4, 0.2), [half_of_rollout(index) for index in range(_ROLLOUTS)]
            scores = []
            for side in sides:
                chance = level + sum(effects[name] for name in chosen if halves[name] == side)
                is_right = rng.random() < min(0.98, max(0.02, chance))
                scores.append(float(is_right) if is_bounded else chance + rng.gauss(0, 0.45))
            value = difference(sides, scores)
            assert value is not None
            trials = trials.with_group(value, halves, {})
            for name in chosen:
                counts[name] += 1
                interval = trials.interval(name)
                if counts[name] in held and interval is not None:
                    mean, low, high = interval
                    held[counts[name]].append(low <= effects[name] <= high)
                    means_by_count[counts[name]][name] = mean
        for count, means in means_by_count.items():
            good = [mean for name, mean in means.items() if effects[name] > 0]
            bad = [mean for name, mean in means.items() if effects[name] <= 0]
            ranked[count] += [float(helpful > other) for helpful in good for other in bad]
    return {count: fmean(hits) for count, hits in held.items()}, {count: fmean(wins) for count, wins in ranked.items()}


def of_prior(rng: random.Random) -> float:
    """An effect as the prior of the trials expects it."""
    drawn = rng.random()
    for share, low, high in _PRIOR:
        if drawn < share:
            return rng.uniform(low, high)
        drawn -= share
    return 0.0


def half_useful(others: Callable[[random.Random], float]) -> Callable[[random.Random], float]:
    """+20 to +40 points, or what ``others`` draws, with equal probability."""
    return lambda rng: rng.uniform(0.2, 0.4) if rng.random() < 0.5 else others(rng)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=400)
    parser.add_argument("--problems", type=int, default=40)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--worlds", type=int, default=200)
    arguments = parser.parse_args(argv)
    for count, share in intervals(arguments.worlds, (10, 20, 40), of_prior)[0].items():
        print(f"{count} differences each: {share:.1%} of the 95 % intervals hold the effect, drawn from the prior")
    kinds: dict[str, Callable[[random.Random], float]] = {
        "does nothing": lambda rng: 0.0,
        "harms by 5 to 15 points": lambda rng: -rng.uniform(0.05, 0.15),
    }
    for kind, others in kinds.items():
        ranked = intervals(arguments.worlds, (20, 40), half_useful(others), is_bounded=True)[1]
        shown = ", ".join(f"{area:.3f} after {count} differences each" for count, area in ranked.items())
        print(f"area under the curve, +20 to +40 points against one that {kind}: {shown}", flush=True)
    if not arguments.gates:
        return 0
    started = time.monotonic()
    verdicts = gates(arguments.gates, arguments.problems, arguments.samples)
    shown = ", ".join(f"{name.replace('_', ' ')} {verdicts[name]}" for name in ("adopted", "rejected", "not_proven"))
    print(f"{arguments.gates} gates without an effect: {shown}; {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
