"""What a short run gains and costs with each window, in planted worlds (:mod:`bench.learning_world`).

``python -m bench.window [--problems 10 30] [--windows 1 2 4 8 16] [--epochs 1] [--seeds 6]``. A line has the groups
whose prompt had an experience, the share of right answers of the run, that of new problems with the library of the run,
and the seconds of a client that costs nothing, on a server whose replies take 1.2 s on average with a heavy tail.
"""

import argparse
import contextlib
import io
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.full_server import critical_path
from bench.learning_world import CODE, World, in_process
from engine.experience.choice import LearnedExperiences
from engine.experience.library import ExperienceLibrary
from engine.records import Problem, RolloutGroup
from engine.storage.rollout_store import read
from grpo_training import generator1

GROUP = 4
SLOTS = 20
"""Requests in flight of an endpoint that names no number."""


def measured(world: World, problems: int, epochs: int, window: int) -> tuple[float, float, float]:
    """Of one run: groups with an experience in the prompt, right answers, and right answers to new problems."""
    with tempfile.TemporaryDirectory(prefix="bench-window-") as name, in_process(world) as url:
        folder = Path(name)
        rows = [{"id": f"p{n}", "problem": world.text(n), "answer": "7"} for n in range(problems)]
        (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        entry = {"api_key": "EMPTY", "base_url": url}
        roles = {"generator_1": entry | {"model": "m"}, "analyst": entry | {"model": "analyst"}}
        (folder / "api.json").write_text(json.dumps(roles))
        words = ["--api-config", folder / "api.json", "--dataset", folder / "problems.jsonl", "--window", window]
        words += ["--cache-dir", folder / "cache", "--experiences-dir", folder / "libraries", "--rollouts", GROUP]
        words += ["--epochs", epochs, "--seed", world.seed]
        with contextlib.redirect_stdout(io.StringIO()):
            generator1.main([str(word) for word in words])
        groups = read(folder / "cache/generator_1_rollouts.jsonl", RolloutGroup).records
        lessons = LearnedExperiences(
            ExperienceLibrary(folder / "libraries/generator_1_experiences.json", read_only=True).state
        )
    used = sum(any(rollout.experience_ids for rollout in group.rollouts) for group in groups)
    right = statistics.fmean(bool(rollout.is_correct) for group in groups for rollout in group.rollouts)

    def codes_of(number: int) -> list[str]:
        chosen = lessons.of(Problem(id=str(number), text=world.text(number), answer=""))
        return [CODE.findall(experience.content)[0] for experience in chosen]

    return used, right, world.accuracy(codes_of)[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, nargs="*", default=[10, 30])
    parser.add_argument("--windows", type=int, nargs="*", default=[1, 2, 4, 8, 16])
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--families", type=int, default=3, help="kinds of problems in a world")
    parser.add_argument("--q", type=float, default=0.6, help="share of experiences that help")
    flags = parser.parse_args(argv)
    for problems in flags.problems:
        groups = problems * flags.epochs
        texts = [f"problem {n} in pass {epoch}" for epoch in range(flags.epochs) for n in range(problems)]
        for window in flags.windows:
            runs = [
                measured(World(seed, flags.families, flags.q), problems, flags.epochs, window)
                for seed in range(flags.seeds)
            ]
            used, right, new = (statistics.fmean(column) for column in zip(*runs, strict=True))
            seconds = critical_path([(text, [[GROUP], [1]]) for text in texts], SLOTS, window)
            print(
                f"{problems} problems, {flags.epochs} passes, window {window}: experiences in {used:.0f} of {groups} "
                f"groups, {right:.1%} right in the run, {new:.1f} % on new problems, {seconds:.0f} s",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
