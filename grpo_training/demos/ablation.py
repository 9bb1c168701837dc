"""``python -m grpo_training.ablation``: what each part of the offline fine-tune does, measured on the shipped model."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from grpo_training.cli.settings import POCKET_MODEL, ROOT, WORKING_DIR, Positive, Settings, parse_settings
from grpo_training.demos.learning import DATASET, STYLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.records import Problem
    from engine.statistics.paired import Estimate

PLAIN = "GRPO alone"
_TRACES = "teacher_traces.jsonl"
_FREE = {"beta": 0.0, "self-sft-weight": 0.0, "zero-variance": "drop", "rce-epochs": 0, "validation-share": 0.1}

PARTS: dict[str, dict[str, Any]] = {
    PLAIN: {},
    "ratio 1, so no clipping": {"missing-logprobs": "ratio_1"},
    "first epoch RCE": {"rce-epochs": 1, "num-train-epochs": 2},
    "teacher-SFT 0.3": {"teacher-sft-weight": 0.3, "teacher-traces": _TRACES},
    "KL, beta 0.1": {"beta": 0.1},
    "KL, adaptive from 0.1": {"beta": 0.1, "adaptive-kl": True},
}
"""What differs from GRPO alone: 3 epochs, clipped, no KL, no imitation, groups of equal rewards left out."""

_FAR = {"missing-logprobs": "ratio_1", "learning-rate": 2e-3}
FAR: dict[str, dict[str, Any]] = {
    "no KL": _FAR,
    "KL, beta 0.1": {**_FAR, "beta": 0.1},
    "KL, adaptive from 0.1": {**_FAR, "beta": 0.1, "adaptive-kl": True},
}
"""Ten times the rate and no clipping: only the KL holds the policy."""

VARIANTS = {"parts": PARTS, "far": FAR}


class AblationSettings(Settings):
    """Settings of ``python -m grpo_training.ablation``."""

    cache: Path = Field(
        WORKING_DIR / "grpo_training/cache/train_demo", description="the folder in which train_demo collected rollouts"
    )
    base_config: Path = Field(ROOT / "grpo_training/configs/pocket.yaml", description="what all variants share")
    model: Path = Field(POCKET_MODEL, description="folder of the model that is trained")
    variants: Literal["parts", "far"] = Field("parts", description="each part alone; or what the KL holds, far off")
    seeds: Annotated[int, Field(ge=2)] = Field(3, description="trainings of each variant")
    problems: Positive = Field(40, description="problems whose rollouts are trained on")
    test_problems: Annotated[int, Field(ge=2)] = Field(240, description="problems that nobody trains on")
    output: Path = Field(WORKING_DIR / "grpo_training/cache/ablation", description="where all that it makes is kept")


@dataclass
class VariantResult:
    """What was measured of a variant.

    Args:
        verdicts: problem id -> 1.0 for right and 0.0 for wrong, one reply a seed.
        kl: of each seed, to the model that training began with, at the end.
        seconds: of each seed's training.
    """

    verdicts: dict[str, list[float]] = field(default_factory=dict)
    kl: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(
        AblationSettings,
        argv,
        prog="python -m grpo_training.ablation",
        description=(
            "Trains the model on the same collected rollouts in several ways and several times each, and compares "
            "them on problems that nobody trained on, without any lesson in the prompt. Prints a table for "
            "docs/training.md. The same command again goes on where it stopped."
        ),
    )
    from engine.datasets import load_problems
    from engine.storage.append_log import replace_file

    settings.output.mkdir(parents=True, exist_ok=True)
    replace_file(settings.output / _TRACES, teacher_traces().encode())
    problems = load_problems(f"{DATASET}:test", max_problems=settings.test_problems)
    results = {"no training": VariantResult()}
    for seed in range(settings.seeds):
        _ask(results["no training"], settings.model, problems, seed)
        for number, (name, changes) in enumerate(VARIANTS[settings.variants].items()):
            folder = settings.output / f"{settings.variants}-{number}-{seed}"
            _train(settings, name, {**_FREE, **changes, "seed": seed}, folder)
            result = results.setdefault(name, VariantResult())
            _ask(result, folder / "merged", problems, seed)
            lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
            result.kl.append(_last(lines, "validation/kl"))
            result.seconds.append(sum(line.get("step_time") or 0.0 for line in lines))
            right = [values[-1] for values in result.verdicts.values()]
            print(f"seed {seed}: {name}: {sum(right) / len(right):.1%} right", flush=True)
    text = table(results, next(iter(VARIANTS[settings.variants])))
    replace_file(settings.output / f"{settings.variants}.md", text.encode())
    sys.stdout.write(text)
    return 0


def teacher_traces() -> str:
    """The reference solutions of the training problems, as accepted traces of a teacher: JSON lines."""
    from agents.generator import generator_messages, prompt_hash
    from engine.task import task_named
    from engine.tasks.math.quickstart import instances
    from grpo_training.pocket.corpus import scaffold_reply
    from grpo_training.teacher.traces import TeacherTrace

    lines = []
    for instance in instances("train", 240):
        problem = instance.problem
        task = task_named(problem.task)
        trace = TeacherTrace(
            task_id=problem.id,
            dataset=DATASET,
            prompt=problem.text,
            full_response=scaffold_reply(instance, True),
            messages=generator_messages(task, problem, (), STYLE),
            prompt_hash=prompt_hash(task, STYLE),
            status="ok",
            accepted=True,
        )
        lines.append(trace.model_dump_json())
    return "\n".join(lines) + "\n"


def table(results: dict[str, VariantResult], base: str = PLAIN) -> str:
    """The figures as a table in Markdown; each variant is compared with ``base`` on the same problems and seeds."""
    from engine.statistics.paired import clustered_mean, paired_difference

    lines = [
        f"| variant | right (95 % interval) | points over {base} | KL to the start | seconds |",
        "|---|---|---|---|---|",
    ]
    for name, result in results.items():
        right = clustered_mean(result.verdicts)
        differs = name != base
        points = _points(paired_difference(result.verdicts, results[base].verdicts)) if differs else "-"
        kl = "-" if not result.kl else f"{min(result.kl):.3f} to {max(result.kl):.3f}"
        seconds = "-" if not result.seconds else f"{sum(result.seconds) / len(result.seconds):.0f}"
        lines.append(
            f"| {name} | {right.value:.1%} ({right.low:.1%} to {right.high:.1%}) | {points} | {kl} | {seconds} |"
        )
    return "\n".join(lines) + "\n"


def _points(difference: Estimate) -> str:
    told = f"{100 * difference.value:+.1f}"
    if difference.low is not None and difference.high is not None:
        told += f" ({100 * difference.low:+.1f} to {100 * difference.high:+.1f})"
    return told if difference.excludes_zero else f"{told}, not told from chance"


def _last(lines: Sequence[dict[str, Any]], name: str) -> float:
    return next((float(line[name]) for line in reversed(lines) if line.get(name) is not None), float("nan"))


def _train(settings: AblationSettings, name: str, changes: dict[str, Any], folder: Path) -> None:
    """One training as its own process; one that is finished is not done again."""
    from grpo_training.demos.process_supervisor import Command, run_side_by_side

    given = {
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
    if given.get("teacher-traces"):
        given["teacher-traces"] = (settings.output / given["teacher-traces"]).resolve()
    flags = [
        part for key, value in given.items() for part in ([f"--{key}"] if value is True else [f"--{key}", str(value)])
    ]
    command = Command(name, ["train", *flags], settings.output / "logs" / f"{folder.name}.log", lambda: "")
    run_side_by_side([command], ready=lambda _: True, check=lambda: None)


def _ask(result: VariantResult, model: Path, problems: Sequence[Problem], seed: int) -> None:
    """One reply to each problem, drawn in this process, judged by its task."""
    from agents.generator import generator_messages
    from engine.records import Completion
    from engine.task import task_named
    from grpo_training.pocket.evaluate import load_model
    from grpo_training.pocket.sampling import sample_replies

    tasks = [task_named(problem.task) for problem in problems]
    prompts = [generator_messages(task, problem, (), STYLE) for task, problem in zip(tasks, problems, strict=True)]
    replies = sample_replies(*load_model(model), prompts, seed=seed)
    for task, problem, reply in zip(tasks, problems, replies, strict=True):
        verdict = task.evaluate(task.parse(Completion(text=reply), problem), problem).is_correct
        result.verdicts.setdefault(problem.id, []).append(float(bool(verdict)))
