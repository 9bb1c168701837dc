"""Are harmful experiences retired, and helpful ones kept? Ten wrong texts in a library of the pocket model.

The library has an experience that helps for each of 16 families of ``quickstart``, with the problem that it comes from,
and ten texts that state a wrong result for ten of these families, with such a problem too. Nothing is added by the
analyst. Prints what was measured of each experience, and what was retired. ``--alone`` measures each wrong text first,
alone in the prompts of other problems: whether it harms is not known beforehand. (Texts that advise a typical mistake
do not harm this model, which does not follow them.)

    python -m bench.harmful_experiences --output DIR [--alone]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.pocket_peers import experiences_of, shown, tested
from engine.api_manager import ApiManager
from engine.datasets import load_problems
from engine.experience.library import ExperienceLibrary
from engine.statistics.paired import paired_difference
from examples.pocket_model.quickstart import FAMILIES
from grpo_training import generator1
from grpo_training.cli.settings import ROOT
from grpo_training.serve.local_server import local_server

WRONG = {
    "round_trip": "When a trip goes out and home, the average speed is 60.",
    "pursuit": "When one chases another, the time is 5.",
    "joint_work": "When two people work at one job, the time is 4.",
    "crew": "When a crew is larger, the time is 6.",
    "rise_and_fall": "When a price rises and falls, the result is 100.",
    "reverse_percent": "When a price before a reduction is wanted, it is 50.",
    "fence_posts": "When posts stand along a fence, the number is 10.",
    "saw_cuts": "When a log is sawn, the number of cuts is 8.",
    "handshakes": "When all shake hands, the number of handshakes is 45.",
    "pages_read": "When pages are read, the number of pages is 20.",
}
HELPFUL = 16


def write_library(path: Path) -> dict[str, str]:
    """The planted library; id -> ``helpful`` or ``harmful``."""
    families = FAMILIES
    # The problems that they come from are not those that are asked.
    sources = {origin.id.rpartition("-")[0].partition("-")[2]: origin for origin in load_problems("quickstart")[200:]}
    chosen = list(dict.fromkeys([*WRONG, *families]))[:HELPFUL]
    planted = [("helpful", name, families[name].lessons[0]) for name in chosen]
    planted += [("harmful", name, text) for name, text in WRONG.items()]
    entries, kinds = [], {}
    for number, (kind, name, text) in enumerate(planted, 1):
        source = sources.get(name)
        evidence = [{"problem_id": source.id, "problem_text": source.text}] if source else []
        category = families[name].category
        entries.append({"id": f"G1-{number:03d}", "content": text, "category": category, "evidence": evidence})
        kinds[f"G1-{number:03d}"] = kind
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entries, indent=1))
    return kinds


def measure_alone(folder: Path) -> None:
    """Print what each wrong text does alone in the prompt of problems that the run does not ask."""
    problems = load_problems("quickstart")[120:200]
    with local_server(ROOT / "data/models/pocket") as server:
        folder.mkdir(parents=True, exist_ok=True)
        api = folder / "api.json"
        api.write_text(json.dumps({"generator_1": server.endpoint()}))
        manager = ApiManager.load(api)
        none = asyncio.run(tested(manager, problems, (), 4))
        for text in WRONG.values():
            verdicts = asyncio.run(tested(manager, problems, experiences_of([text]), 4))
            print(f"alone {shown(paired_difference(verdicts, none))}: {text}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Plant, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="a new folder")
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", action="store_true", help="measure each wrong text alone first")
    flags = parser.parse_args(argv)
    if flags.alone:
        measure_alone(flags.output)
    path = flags.output / "experiences/generator_1_experiences.json"
    kinds = write_library(path)
    words = ["--dataset", "quickstart", "--max-problems", flags.problems, "--rollouts", 4, "--epochs", flags.epochs]
    words += ["--endpoint", "local", "--prompts", "pocket", "--temperature", 1, "--max-tokens", 256, "--tau", 9]
    words += ["--seed", flags.seed]
    words += ["--cache-dir", flags.output / "cache", "--experiences-dir", path.parent]
    if generator1.main([str(word) for word in words]):
        return 1
    state = ExperienceLibrary(path, read_only=True).state
    retired = {entry.id for entry in state.retired}
    rows = []
    for entry in (*state.live, *state.retired):
        interval, belief = state.trials.interval(entry.id), state.trials.belief(entry)
        rows.append((interval[0] if interval else 0.0, entry, belief))
    for mean, entry, belief in sorted(rows, key=lambda row: -row[0]):
        print(
            f"{kinds[entry.id]:8} {entry.id} {'retired' if entry.id in retired else '':8}{100 * mean:+5.0f} points in "
            f"{state.trials.by_id[entry.id].differences if entry.id in state.trials.by_id else 0:3} groups, "
            f"helps with {belief.p_helps:.2f}: {entry.content}"
        )
    for kind in ("harmful", "helpful"):
        ids = {name for name, of in kinds.items() if of == kind}
        print(f"{kind}: {len(ids & retired)} of {len(ids)} retired")
    return 0


if __name__ == "__main__":
    sys.exit(main())
