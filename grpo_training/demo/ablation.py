"""The ablation: trains the pocket model in several ways and compares the results on held-out problems."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.generator import generator_messages
from engine.datasets import load_problems
from engine.records import Completion, Problem
from engine.storage.append_log import replace_file
from engine.tasks.registry import task_named
from grpo_training.demo.learners import train_command
from grpo_training.demo.settings import DATASET, STYLE, TEST_SET, AblationSettings
from grpo_training.demo.variants import SHARED, TRACES_FILE, VARIANTS, VariantResult, table
from grpo_training.pocket.corpus import reference_traces
from grpo_training.pocket.sampling import load_model, sample_replies
from grpo_training.runs.supervisor import supervise

_TRAINING_PROBLEMS = 240


def run_ablation(settings: AblationSettings) -> int:
    """Train and evaluate each variant with each seed, then print the table; the exit code.

    A training that is complete is not repeated.
    """
    settings.output.mkdir(parents=True, exist_ok=True)
    traces = reference_traces(DATASET, _TRAINING_PROBLEMS)
    replace_file(settings.output / TRACES_FILE, "".join(f"{one.model_dump_json()}\n" for one in traces).encode())
    problems = load_problems(TEST_SET, max_problems=settings.test_problems)
    variants = VARIANTS[settings.variants]
    results = {"no training": VariantResult()}
    for seed in range(settings.seeds):
        _evaluate(results["no training"], settings.model, problems, seed)
        for number, (name, changes) in enumerate(variants.items()):
            folder = settings.output / f"{settings.variants}-{number}-{seed}"
            _train(settings, name, {**SHARED, **changes, "seed": seed}, folder)
            result = results.setdefault(name, VariantResult())
            _evaluate(result, folder / "merged", problems, seed)
            lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
            result.kl.append(_last(lines, "validation/kl"))
            result.seconds.append(sum(line.get("step_time") or 0.0 for line in lines))
            right = [values[-1] for values in result.verdicts.values()]
            print(f"seed {seed}: {name}: {sum(right) / len(right):.1%} right", flush=True)
    text = table(results, next(iter(variants)))
    replace_file(settings.output / f"{settings.variants}.md", text.encode())
    sys.stdout.write(text)
    return 0


def _last(lines: Sequence[Mapping[str, Any]], name: str) -> float:
    """The last value of a metric; NaN if there is none."""
    return next((float(line[name]) for line in reversed(lines) if line.get(name) is not None), float("nan"))


def _train(settings: AblationSettings, name: str, changes: Mapping[str, Any], folder: Path) -> None:
    """Run one training in its own process."""
    values = {
        "config": settings.base_config,
        "mode": "offline",
        "model-name-or-path": settings.model.resolve(),
        "dataset-path": (settings.cache / "cache").resolve(),
        "experiences-dir": (settings.cache / "experiences").resolve(),
        "output-dir": folder.resolve(),
        "num-train-epochs": 3,
        "max-problems": settings.problems,
        **changes,
    }
    if values.get("teacher-traces"):
        values["teacher-traces"] = (settings.output / values["teacher-traces"]).resolve()
    log = settings.output / "logs" / f"{folder.name}.log"
    supervise([train_command(name, values, log, lambda: "")])


def _evaluate(result: VariantResult, model: Path, problems: Sequence[Problem], seed: int) -> None:
    """Add the verdict on one sample of each problem, drawn in this process without experiences."""
    tasks = [task_named(problem.task) for problem in problems]
    prompts = [generator_messages(task, problem, (), STYLE) for task, problem in zip(tasks, problems, strict=True)]
    replies = sample_replies(*load_model(model), prompts, seed=seed)
    for task, problem, reply in zip(tasks, problems, replies, strict=True):
        verdict = task.evaluate(task.parse(Completion(text=reply), problem), problem).is_correct
        result.verdicts.setdefault(problem.id, []).append(float(bool(verdict)))
