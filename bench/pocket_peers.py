"""Trials, all experiences at once, and GEPA with the pocket model, at the same number of rollouts.

Each learns from the same 40 problems of ``quickstart``, and answers the same problems of ``quickstart:test``. GEPA is
its own package in an environment of its own (:mod:`bench.gepa_over_pipes`); the analyst of the project proposes what it
adds to a list of experiences, for the three attempts of its mini-batch one after the other.

    python -m bench.pocket_peers --gepa-python ENVIRONMENT/bin/python --seeds 3 --output DIR
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import itertools
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.api_manager import ApiManager
from engine.datasets import load_problems
from engine.experience.choice import LearnedExperiences
from engine.experience.library import ExperienceLibrary
from engine.llm.client import LLMClient
from engine.records import Experience, Problem, Sampling
from engine.statistics.paired import Estimate, clustered_mean, paired_difference
from grpo_training import generator1
from grpo_training.agents.analyst import Attempt, ExperienceAnalyst
from grpo_training.cli.settings import ROOT
from grpo_training.evaluate.arms import JudgedSample, ProblemResult
from grpo_training.evaluate.sampling import evaluate_problems
from grpo_training.serve.local_server import local_server

STYLE, GROUP, EPOCHS, PROBLEMS = "pocket", 4, 3, 40
ROLLOUTS = PROBLEMS * GROUP * EPOCHS
SAMPLING = Sampling(temperature=1.0, max_tokens=256)
Lessons = Sequence[Experience] | LearnedExperiences
Verdicts = dict[str, list[float]]
_TOKENS = re.compile(r"\(([\d,]+) tokens in, ([\d,]+) out\)")


def learned(
    way: str, problems: Sequence[Problem], seed: int, folder: Path, api: Path
) -> tuple[LearnedExperiences, int, int]:
    """The library of the generator command with ``--learn WAY``, how many texts of it are in use, and its tokens."""
    path, cost = folder / "libraries/generator_1_experiences.json", folder / "tokens.json"
    if not cost.exists():
        folder.mkdir(parents=True, exist_ok=True)  # of a run that was interrupted: the command goes on
        rows = [{"id": problem.id, "problem": problem.text, "answer": problem.answer} for problem in problems]
        (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        words = ["--dataset", folder / "problems.jsonl", "--api-config", api, "--rollouts", GROUP, "--epochs", EPOCHS]
        words += ["--learn", way, "--prompts", STYLE, "--temperature", SAMPLING.temperature, "--max-tokens", 256]
        words += ["--cases", 0]
        words += ["--cache-dir", folder / "cache", "--experiences-dir", path.parent, "--seed", seed]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            if generator1.main([str(word) for word in words]):
                raise SystemExit(f"the generator failed: {folder}")
        spent = _TOKENS.search(printed.getvalue())
        assert spent is not None
        cost.write_text(json.dumps(sum(int(number.replace(",", "")) for number in spent.groups())))
    state = ExperienceLibrary(path, read_only=True).state
    return LearnedExperiences(state), len(state.helpful), json.loads(cost.read_text())


class _Gepa:
    """Runs GEPA in its environment, and answers its requests."""

    def __init__(self, manager: ApiManager, problems: Sequence[Problem]) -> None:
        self._manager, self._problems = manager, {problem.id: problem for problem in problems}
        self._draws = itertools.count()
        self._attempts: dict[str, Attempt] = {}  # the last one of each problem

    async def run(self, python: Path, seed: int) -> tuple[list[str], int]:
        """The best list of experiences, and the tokens that it cost."""
        ids = list(self._problems)
        order = {"train": ids[: PROBLEMS // 2], "held": ids[PROBLEMS // 2 :], "rollouts": ROLLOUTS, "seed": seed}
        program = str(Path(__file__).with_name("gepa_over_pipes.py"))
        async with LLMClient(self._manager) as client:
            process = await asyncio.create_subprocess_exec(
                str(python), program, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            to_gepa, from_gepa = process.stdin, process.stdout
            assert to_gepa is not None
            assert from_gepa is not None
            message: Any = order
            while True:
                to_gepa.write(json.dumps(message).encode() + b"\n")
                request = json.loads(await from_gepa.readline())
                if "best" in request:
                    await process.wait()
                    spent = client.counters
                    return list(request["best"]), spent.prompt_tokens + spent.completion_tokens
                answer = self._evaluated if "evaluate" in request else self._proposed
                message = await answer(client, request)

    async def _evaluated(self, client: LLMClient, request: dict[str, Any]) -> list[float]:
        def keep(result: ProblemResult, samples: Sequence[JudgedSample]) -> None:
            [sample] = samples
            text = sample.completion.text if sample.completion else ""
            is_right = bool(sample.is_right)
            self._attempts[result.problem_id] = Attempt(text, sample.answer, is_right, float(is_right))

        problems = [self._problems[name] for name in request["evaluate"]]
        lessons = experiences_of(request["experiences"])
        verdicts = await asked(client, problems, lessons, samples=1, first=next(self._draws), judged=keep)
        return [verdicts[problem.id][0] for problem in problems]

    async def _proposed(self, client: LLMClient, request: dict[str, Any]) -> list[str]:
        texts = list(request["experiences"])
        analyst = ExperienceAnalyst(client, "analyst", "generator", style=STYLE)
        for row in request["propose"]:
            name = row["problem"]
            if row["score"] < 1:
                proposal = await analyst.propose(self._problems[name], [self._attempts[name]])
                texts += [proposal.lesson] if proposal.lesson else []
        return list(dict.fromkeys(texts))


def experiences_of(texts: Sequence[str]) -> list[Experience]:
    """Experiences of these texts."""
    return [Experience(id=f"G1-{number:03d}", content=text) for number, text in enumerate(texts, 1)]


async def asked(
    client: LLMClient,
    problems: Sequence[Problem],
    lessons: Lessons,
    *,
    samples: int,
    first: int = 0,
    judged: Callable[[ProblemResult, Sequence[JudgedSample]], None] = lambda result, samples: None,
) -> Verdicts:
    """1 for each right answer and else 0, by problem."""
    results = await evaluate_problems(
        client,
        "generator_1",
        problems,
        samples=samples,
        first_sample=first,
        sampling=SAMPLING,
        style=STYLE,
        experiences=lessons,
        judged=judged,
    )
    return {result.problem_id: [float(bool(right)) for right in result.verdicts] for result in results}


async def tested(manager: ApiManager, problems: Sequence[Problem], lessons: Lessons, samples: int) -> Verdicts:
    """The same with a client of its own."""
    async with LLMClient(manager) as client:
        return await asked(client, problems, lessons, samples=samples)


def main(argv: Sequence[str] | None = None) -> int:
    """Learn, test and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gepa-python", type=Path, help="an interpreter with the package gepa; without it no GEPA")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--test-problems", type=int, default=100)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--output", type=Path, required=True, help="folder of the runs; what is there is used again")
    arguments = parser.parse_args(argv)
    pool, test = load_problems("quickstart"), load_problems("quickstart:test")[: arguments.test_problems]
    by_seed: dict[str, dict[str, Verdicts]] = {}
    with local_server(ROOT / "data/models/pocket") as server:
        arguments.output.mkdir(parents=True, exist_ok=True)
        api = arguments.output / "api.json"
        api.write_text(json.dumps({"generator_1": server.endpoint(), "analyst": server.endpoint()}))
        manager = ApiManager.load(api)
        none = asyncio.run(tested(manager, test, (), arguments.samples))
        for seed in range(arguments.seeds):
            problems = random.Random(seed).sample(pool, PROBLEMS)
            lessons: dict[str, tuple[Lessons, int, int]] = {
                way: learned(way, problems, seed, arguments.output / f"{way}_{seed}", api) for way in ("trial", "add")
            }
            if arguments.gepa_python:
                kept = arguments.output / f"gepa_{seed}.json"
                if not kept.exists():
                    kept.write_text(json.dumps(asyncio.run(_Gepa(manager, problems).run(arguments.gepa_python, seed))))
                texts, tokens = json.loads(kept.read_text())
                lessons["gepa"] = experiences_of(texts), len(texts), tokens
            by_seed[str(seed)] = {"none": none}
            for way, (library, texts, tokens) in lessons.items():
                verdicts = asyncio.run(tested(manager, test, library, arguments.samples))
                by_seed[str(seed)][way] = verdicts
                print(
                    f"seed {seed} {way:6} {texts} texts, {tokens:,} tokens, {shown(clustered_mean(verdicts))}",
                    flush=True,
                )
    (arguments.output / "verdicts.json").write_text(json.dumps(by_seed))
    ways = [way for way in ("trial", "add", "gepa") if way in by_seed["0"]]
    joined = {way: _joined([of_seed[way] for of_seed in by_seed.values()]) for way in ("none", *ways)}
    for way, verdicts in joined.items():
        gain = shown(paired_difference(verdicts, joined["none"]))
        print(f"{way:6} {shown(clustered_mean(verdicts))}, against none {gain}")
    for way in ways[1:]:
        print(f"trial against {way}: {shown(paired_difference(joined['trial'], joined[way]))}")
    return 0


def shown(estimate: Estimate) -> str:
    """Percentages."""
    value, low, high = (100 * (share or 0.0) for share in (estimate.value, estimate.low, estimate.high))
    return f"{value:.1f} % ({low:.1f} to {high:.1f})"


def _joined(runs: Sequence[Verdicts]) -> Verdicts:
    """All seeds' verdicts on a problem as one cluster: the test problems are the same."""
    return {name: [verdict for run in runs for verdict in run[name]] for name in runs[0]}


if __name__ == "__main__":
    sys.exit(main())
