"""What a start, the viewer, an export and training data take with many stored rollouts.

``python -m bench.scale --rollouts 1000000`` writes groups of 8 recorded rollouts of the pocket model to a temporary
folder, each with its fusion, and runs the commands on them, each in a process of its own. Nothing is asked for.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.viewer import POLL_S, get, peak_mb, processor_s, served
from engine.statistics.groups import group_stats
from tests.conftest import ROOT
from tests.support.viewer_runs import pocket_run

MEMBERS, VARIANTS = 8, 48
RESUME_S, RESUME_MB = 3.0, 300
"""Bounds of a start on 100,000 stored rollouts: processor time and memory."""
BOUNDED = "generator, resumed"
ALL_STEPS = (
    "generator, first start",
    "generator, complete",
    BOUNDED,
    "critic, first start",
    "critic, resumed",
    "viewer, first page",
    "viewer, all figures",
    "export, rollouts",
    "export, trl-grpo",
    "train --dry-run",
)


class Figures(NamedTuple):
    """Seconds of the clock, of the processor, and the largest memory in MB."""

    seconds: float
    processor_s: float
    memory_mb: float


def write_run(folder: Path, rollouts: int) -> None:
    """A cache of complete groups with one fusion each, and the dataset of its problems."""
    with tempfile.TemporaryDirectory() as directory:
        recorded = pocket_run(Path(directory)) / "cache"
        groups = _rows(recorded / "generator_1_rollouts.jsonl")
        fusions = _rows(recorded / "critic_results.jsonl")
    problems, cache = folder / "problems.jsonl", folder / "cache"
    cache.mkdir()
    variants = [_variant(groups, number) for number in range(VARIANTS)]
    fusion = {key: value for key, value in fusions[0].items() if key not in ("inputs_hash", "policy")}
    with (
        problems.open("w", encoding="utf-8") as dataset,
        (cache / "generator_1_rollouts.jsonl").open("w", encoding="utf-8") as stored,
        (cache / "critic_results.jsonl").open("w", encoding="utf-8") as fused,
    ):
        for number in range(rollouts // MEMBERS):
            group, rest = variants[number % VARIANTS]
            fields: dict[str, Any] = {"problem_id": f"p{number}", "problem_text": f"{group['problem_text']} ({number})"}
            stored.write(json.dumps({**fields, "step": number}, ensure_ascii=False)[:-1] + ", " + rest + "\n")
            row = {"id": fields["problem_id"], "problem": fields["problem_text"], "answer": group["ground_truth"]}
            dataset.write(json.dumps(row) + "\n")
            group_fields = {"ground_truth": group["ground_truth"], "generator_id": "generator_1", "step": number}
            fused.write(json.dumps({**fusion, **fields, **group_fields}, ensure_ascii=False) + "\n")


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _variant(groups: Sequence[dict[str, Any]], number: int) -> tuple[dict[str, Any], str]:
    """A group of recorded rollouts, and its line without its problem and its beginning."""
    rollouts = [rollout for group in groups for rollout in group["rollouts"]]
    chosen = list(itertools.islice(itertools.cycle(rollouts), number, number + MEMBERS))
    group = {**groups[number % len(groups)], "epoch": 0}
    group["rollouts"] = [{**rollout, "rollout_id": rollout_id} for rollout_id, rollout in enumerate(chosen, 1)]
    group["stats"] = group_stats([rollout["r_total"] for rollout in chosen], 0.05).model_dump()
    fields = {key: value for key, value in group.items() if key not in ("problem_id", "problem_text")}
    return group, json.dumps(fields, ensure_ascii=False)[1:]


def command(*arguments: str) -> Figures:
    """Run a command of the project.

    Raises:
        SystemExit: it failed; its output is printed.
    """
    started = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            sys.exit(f"{' '.join(arguments)}\n{output.read().decode()[-3000:]}")
    return Figures(time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def view(folder: Path, *, complete: bool) -> Figures:
    """Start the viewer and ask for the list of groups, once or until all groups are in it."""
    started = time.perf_counter()
    with served(folder / "cache") as (root, server):
        while "data-reading" in get(root + "cache-generator_1/groups.html")[1] and complete:
            time.sleep(POLL_S)
        return Figures(time.perf_counter() - started, processor_s(server), peak_mb(server))


def steps(folder: Path) -> dict[str, Callable[[], Figures]]:
    """What is measured, by name, in the order in which the steps follow each other."""
    cache, output = folder / "cache", folder / "output"
    learner = ["--cache-dir", str(cache), "--experiences-dir", str(folder / "experiences"), "--learn", "none"]
    learner += ["--base-url", "http://127.0.0.1:9/v1", "--model", "pocket"]
    generator = ["grpo_training.generator1", "--dataset", str(folder / "problems.jsonl"), "--rollouts", "8", *learner]
    critic = ["grpo_training.critic", "--generators", "1", *learner]

    def resumed(role: str, arguments: Sequence[str]) -> Figures:
        path = cache / f"{role}_run.json"
        manifest = json.loads(path.read_text())
        del manifest["stamp"]  # by which a complete run is recognised without reading it
        path.write_text(json.dumps(manifest))
        return command(*arguments)

    def export(name: str) -> Figures:
        return command("grpo_training.export", str(cache), "--to", name, "--output", str(output / f"{name}.jsonl"))

    def train() -> Figures:
        model = str(ROOT / "data/models/pocket")
        return command("grpo_training.train", "--model-name-or-path", model, "--dataset-path", str(cache), "--dry-run")

    functions: list[Callable[[], Figures]] = [
        lambda: command(*generator, "--resume"),  # there is no manifest yet
        lambda: command(*generator),
        lambda: resumed("generator_1", generator),
        lambda: command(*critic, "--resume"),
        lambda: resumed("critic", critic),
        lambda: view(folder, complete=False),
        lambda: view(folder, complete=True),
        lambda: export("rollouts"),
        lambda: export("trl-grpo"),
        train,
    ]
    return dict(zip(ALL_STEPS, functions, strict=True))


def main(argv: Sequence[str] | None = None) -> bool:
    """Measure, print the figures and return whether the bounds hold."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--rollouts", type=int, default=100_000)
    parser.add_argument("--step", action="append", choices=ALL_STEPS, help="only this one; may be repeated")
    parser.add_argument("--folder", type=Path, help="keep the files there (default: a temporary folder)")
    arguments = parser.parse_args(argv)
    folder = arguments.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    holds = True
    try:
        if not (folder / "cache").exists():
            write_run(folder, arguments.rollouts)
        size = (folder / "cache/generator_1_rollouts.jsonl").stat().st_size
        print(f"scale: {arguments.rollouts:,} rollouts, {size / arguments.rollouts:,.0f} bytes each", flush=True)
        for name, function in steps(folder).items():
            if arguments.step and name not in arguments.step:
                continue
            figures = function()
            print(
                f"scale: {name:24} {figures.seconds:7.1f} s, processor {figures.processor_s:7.1f} s, "
                f"memory {figures.memory_mb:6.0f} MB",
                flush=True,
            )
            if name == BOUNDED:
                most_s = RESUME_S * max(1.0, arguments.rollouts / 100_000)
                holds &= figures.processor_s <= most_s and figures.memory_mb <= RESUME_MB
    finally:
        if arguments.folder is None:
            shutil.rmtree(folder)
    print(f"scale: bound of {BOUNDED!r}: {RESUME_S:g} s of the processor per 100,000 rollouts, {RESUME_MB} MB")
    return holds


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
