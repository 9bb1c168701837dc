"""Are harmful experiences retired, and helpful ones kept? Ten wrong texts in a library of the pocket model.

The library has an experience that helps for each of 16 families of ``quickstart``, with the problem that it comes from,
and ten texts that advise the typical mistake of ten of these families, with such a problem too. Nothing is added by the
analyst. Prints what was measured of each experience, and what was retired.

    python -m bench.harmful_experiences --output DIR
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.datasets import load_problems, problem_families
from engine.experience.library import ExperienceLibrary
from grpo_training import generator1

MISTAKES = {
    "round_trip": "When a trip goes out and home at different speeds, take the mean of both speeds.",
    "pursuit": "When one chases another, the time is the gap over the faster speed.",
    "joint_work": "When two people work at one job at once, take the mean of both times.",
    "crew": "When a crew is larger, the time grows in proportion to the workers.",
    "rise_and_fall": "When a price rises and falls, add the percentages and apply the sum once.",
    "reverse_percent": "To find the price before a reduction, add the percentage to the paid price.",
    "fence_posts": "For posts along a fence, divide the length by the step and stop there.",
    "saw_cuts": "For a log that is sawn, count one cut for each piece.",
    "handshakes": "For handshakes, multiply the people by one less and do not halve.",
    "pages_read": "For pages from one to another, take just the difference.",
}
HELPFUL = 16


def write_library(path: Path) -> dict[str, str]:
    """The planted library; id -> ``helpful`` or ``harmful``."""
    families = problem_families("quickstart").families
    # The problems that they come from are not those that are asked.
    sources = {one.id.rpartition("-")[0].partition("-")[2]: one for one in load_problems("quickstart")[200:]}
    chosen = list(dict.fromkeys([*MISTAKES, *families]))[:HELPFUL]
    planted = [("helpful", name, families[name].lessons[0]) for name in chosen]
    planted += [("harmful", name, text) for name, text in MISTAKES.items()]
    entries = []
    for number, (_, name, text) in enumerate(planted, 1):
        source = sources.get(name)
        evidence = [{"problem_id": source.id, "problem_text": source.text}] if source else []
        category = families[name].category
        entries.append({"id": f"G1-{number:03d}", "content": text, "category": category, "evidence": evidence})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entries, indent=1))
    return {entry["id"]: kind for entry, (kind, *_) in zip(entries, planted, strict=True)}


def main(argv: Sequence[str] | None = None) -> int:
    """Plant, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="a new folder")
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=3)
    given = parser.parse_args(argv)
    path = given.output / "experiences/generator_1_experiences.json"
    kinds = write_library(path)
    words = ["--dataset", "quickstart", "--max-problems", given.problems, "--rollouts", 4, "--epochs", given.epochs]
    words += ["--endpoint", "local", "--prompts", "compact", "--temperature", 1, "--max-tokens", 256, "--tau", 9]
    words += ["--cache-dir", given.output / "cache", "--experiences-dir", path.parent]
    if generator1.main([str(word) for word in words]):
        return 1
    state = ExperienceLibrary(path, read_only=True).state
    retired = {one.id for one in state.retired}
    rows = []
    for one in (*state.texts, *state.retired):
        interval, belief = state.trials.interval(one.id), state.trials.belief(one.id)
        rows.append((interval[0] if interval else 0.0, one, belief))
    for mean, one, belief in sorted(rows, key=lambda row: -row[0]):
        print(
            f"{kinds[one.id]:8} {one.id} {'retired' if one.id in retired else '':8}{100 * mean:+5.0f} points in "
            f"{state.trials.by_id[one.id].differences if one.id in state.trials.by_id else 0:3} groups, "
            f"helps with {belief.p_helps:.2f}: {one.content}"
        )
    for kind in ("harmful", "helpful"):
        ids = {name for name, of in kinds.items() if of == kind}
        print(f"{kind}: {len(ids & retired)} of {len(ids)} retired")
    return 0


if __name__ == "__main__":
    sys.exit(main())
