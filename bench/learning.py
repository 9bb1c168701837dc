"""What learning gains in planted worlds (:mod:`bench.learning_world`), through the real generator command.

Each run is a line of ``--output``; the same command again makes the runs that are missing there. Without ``--output``
nothing is kept. ``--gepa-python`` is an interpreter with the package ``gepa``.

    python -m bench.learning --problems 300 --rollouts 1000 4000 --q 0.4 --seeds 3 --output learning.jsonl
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import learning_peers
from bench.learning_world import CODE, World, in_process, served
from engine.experience.choice import LearnedExperiences
from engine.experience.library import ExperienceLibrary
from engine.experience.similarity import ExperienceMatcher
from engine.records import Evidence, Experience, Problem
from grpo_training import generator1

COMMANDS: dict[str, list[str]] = {
    "all at once": ["--learn", "add"],
    "8 matching": ["--learn", "add", "--select", "text", "--capacity", "256"],
    "trial": ["--learn", "trial"],
}
PEERS = ("training-free grpo", "ace", "gepa")


def learn(
    world: World, flags: Sequence[str], problems: int, rollouts: int, group: int, *, over_http: bool
) -> ExperienceLibrary:
    """Learn with generator 1; its library."""
    folder = Path(tempfile.mkdtemp(prefix="bench-learning-"))
    groups = max(1, rollouts // group)
    rows = [{"id": f"p{n}", "problem": world.text(n), "answer": "7"} for n in range(min(groups, problems))]
    epochs = max(1, round(groups / len(rows)))
    (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (served if over_http else in_process)(world) as url:
        entry = {"api_key": "EMPTY", "base_url": url, "max_concurrency": 32}
        roles = {"generator_1": entry | {"model": "m"}, "analyst": entry | {"model": "analyst"}}
        (folder / "api.json").write_text(json.dumps(roles))
        words = ["--api-config", folder / "api.json", "--dataset", folder / "problems.jsonl", "--window", "8"]
        words += ["--cache-dir", folder / "cache", "--experiences-dir", folder / "libraries", "--rollouts", group]
        words += ["--epochs", epochs, "--seed", world.seed, *flags]
        with contextlib.redirect_stdout(io.StringIO()):
            generator1.main([str(word) for word in words])
    library = ExperienceLibrary(folder / "libraries/generator_1_experiences.json", read_only=True)
    shutil.rmtree(folder)
    return library


def run(policy: str, world: World, rollouts: int, flags: argparse.Namespace) -> dict[str, Any]:
    """One run: the accuracy on new problems, and what is kept."""
    problems = flags.problems
    started = time.monotonic()
    if policy in COMMANDS:
        state = learn(world, COMMANDS[policy], problems, rollouts, flags.group, over_http=flags.http).state
        lessons = LearnedExperiences(state)
        kept = _codes_of(state.helpful)

        def codes_of(number: int) -> list[str]:
            chosen = lessons.of(Problem(id=str(number), text=world.text(number), answer=""))
            return _codes_of(chosen)

    else:
        if policy == "gepa":
            kept = learning_peers.gepa(world, problems, rollouts, flags.gepa_python)
        else:
            rule = {"ace": learning_peers.ace, "training-free grpo": learning_peers.training_free_grpo}[policy]
            kept = rule(world, problems, rollouts)

        def codes_of(number: int) -> list[str]:
            return kept

    accuracy, size = world.accuracy(codes_of)
    kinds = [world.planted[code].kind for code in kept]
    return {
        "accuracy": round(accuracy, 2),
        "in_prompt": round(size, 2),
        "kept": len(kept),
        "helpful": kinds.count("helps"),
        "harmful": kinds.count("harms"),
        "proposals": world.calls,
        "tokens": world.tokens,
        "seconds": round(time.monotonic() - started, 1),
    }


def _codes_of(experiences: Sequence[Experience]) -> list[str]:
    """The planted experiences among those of a library; cases have no effect in a world."""
    return [code for entry in experiences if entry.kind == "lesson" for code in CODE.findall(entry.content)]


def matching(world: World, problems: int) -> tuple[float, float]:
    """How much more similar the right family's experiences are: in standard deviations, and their share of 8 chosen."""
    experiences = [
        Experience(id=f"G1-{n}", content="", evidence=[Evidence(problem_id=f"p{n}", problem_text=world.text(n))])
        for n in range(problems)
    ]
    matcher = ExperienceMatcher(experiences)
    right, wrong, among = [], [], []
    for number in range(10**6, 10**6 + 100):
        scores = [sum(cosines) for cosines in matcher.cosines(world.text(number))]
        is_own = [n % world.families == number % world.families for n in range(problems)]
        right += [score for score, fits in zip(scores, is_own, strict=True) if fits]
        wrong += [score for score, fits in zip(scores, is_own, strict=True) if not fits]
        order = sorted(range(problems), key=lambda n: -scores[n])
        among.append(sum(is_own[n] for n in order[:8]) / 8)
    inside = (statistics.pvariance(right) * len(right) + statistics.pvariance(wrong) * len(wrong)) / (
        len(right) + len(wrong)
    )
    return (statistics.fmean(right) - statistics.fmean(wrong)) / inside**0.5, statistics.fmean(among)


def main(argv: Sequence[str] | None = None) -> int:
    """Make the runs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=300)
    parser.add_argument("--rollouts", type=int, nargs="*", default=[1000, 4000])
    parser.add_argument("--group", type=int, default=3, help="rollouts of a problem")
    parser.add_argument("--q", type=float, nargs="*", default=[0.4])
    parser.add_argument("--seeds", type=int, default=3, help="number of worlds")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--family-words", type=int, help="words that tell the family of a problem (default: 4 or 5)")
    parser.add_argument("--policies", nargs="*", default=list(COMMANDS), choices=[*COMMANDS, *PEERS])
    parser.add_argument("--gepa-python", type=Path, help="needed by the policy gepa")
    parser.add_argument("--http", action="store_true", help="ask through a server; else the world answers in process")
    parser.add_argument("--output", type=Path, help="file of the runs, one line each")
    flags = parser.parse_args(argv)
    if "gepa" in flags.policies and flags.gepa_python is None:
        parser.error("the policy gepa needs --gepa-python")
    families, seeds = 20 if flags.problems >= 100 else 6, range(flags.first_seed, flags.first_seed + flags.seeds)
    known: dict[str, dict[str, Any]] = {}
    if flags.output and flags.output.exists():
        known = {line["run"]: line for line in map(json.loads, flags.output.read_text().splitlines())}
    gap, among = matching(World(0, families, 0.0, flags.family_words), flags.problems)
    print(f"experiences of the right family are {gap:.1f} sd more similar; {among:.0%} of the 8 chosen are of it")
    for q in flags.q:
        none = [World(seed, families, q).accuracy(lambda number: ())[0] for seed in seeds]
        print(f"q = {q}, {flags.problems} problems in {families} families; none: {_mean(none)}", flush=True)
        for rollouts in flags.rollouts:
            by_policy: dict[str, list[dict[str, Any]]] = {policy: [] for policy in flags.policies}
            for seed in seeds:
                for policy in flags.policies:
                    name = f"{policy} q{q} p{flags.problems} r{rollouts} g{flags.group} w{flags.family_words} s{seed}"
                    if name not in known:
                        world = World(seed, families, q, flags.family_words)
                        line = run(policy, world, rollouts, flags)
                        known[name] = {"run": name, **line}
                        if flags.output:
                            with flags.output.open("a") as file:
                                file.write(json.dumps(known[name]) + "\n")
                    by_policy[policy].append(known[name])
            for policy, lines in by_policy.items():
                _print(policy, rollouts, lines)
    return 0


def _print(policy: str, rollouts: int, lines: Sequence[dict[str, Any]]) -> None:
    kept = max(1, sum(line["kept"] for line in lines))
    shares = [sum(line[kind] for line in lines) / kept for kind in ("helpful", "harmful")]
    means = {name: statistics.fmean(line[name] for line in lines) for name in ("kept", "in_prompt", "proposals")}
    thousands = statistics.fmean(line["tokens"] for line in lines) / 1000
    print(
        f"{rollouts:6} rollouts  {policy:18} {_mean([line['accuracy'] for line in lines])}  kept {means['kept']:.0f} "
        f"(helpful {shares[0]:.0%}, harmful {shares[1]:.0%}), in a prompt {means['in_prompt']:.1f}, proposals "
        f"{means['proposals']:.0f}, {thousands:.0f} thousand tokens, {len(lines)} seeds",
        flush=True,
    )


def _mean(values: Sequence[float]) -> str:
    """The mean of percentages and its standard error."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):.1f} % +- {error:.1f}"


if __name__ == "__main__":
    sys.exit(main())
