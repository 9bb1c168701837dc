"""``python -m grpo_training.train``: fine-tune a local model with GRPO, on stored rollouts or on fresh ones."""

from __future__ import annotations

import importlib.util
import os
import statistics
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import ConfigurationError, InputError
from grpo_training.cli.settings import parse_settings
from grpo_training.finetune.config import GRPOTrainingConfig, load_config
from grpo_training.runs.directory import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from engine.records import Problem
    from grpo_training.finetune.data.samples import DropReport, Sample
    from grpo_training.finetune.tracking import TrainingResult

__all__ = ["GRPOTrainingConfig", "load_config", "main", "train_grpo"]

_NEEDED = {
    "offline": ("torch", "transformers", "peft", "accelerate"),
    "online": ("torch", "transformers", "peft", "accelerate", "trl", "datasets"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    config = parse_settings(
        GRPOTrainingConfig,
        argv,
        prog="python -m grpo_training.train",
        description=(
            "Fine-tunes a local model with GRPO: offline on the rollouts that the generators kept, or online on "
            "problems that it samples itself. Writes a LoRA adapter, a merged model that can be served, metrics "
            "and a page of curves to --output-dir. The same command again goes on where it stopped."
        ),
    )
    return train_grpo(config)


def train_grpo(config: GRPOTrainingConfig) -> int:
    """Train as a configuration says; the exit code.

    What is wrong with configuration, model's place and data is found before anything is written; a training that
    is refused before its first step leaves no folder behind.

    Raises:
        ScaffoldError: what is wrong, why, and how to mend it.
    """
    config = RunDirectory(config.output_dir).resumed(config)
    check_packages(config)
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    return _train_online(config) if config.mode == "online" else _train_offline(config)


def check_packages(config: GRPOTrainingConfig) -> None:
    """Refuse to begin without the libraries that the mode needs; nothing of them is loaded.

    Raises:
        ConfigurationError: some are missing.
    """
    missing = [name for name in _NEEDED[config.mode] if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"Not installed: {', '.join(missing)}",
            why="The fine-tune has requirements of its own, which nothing else here needs.",
            fix="Run `make finetune`, or: pip install -c constraints.txt -e '.[finetune]'",
        )


# ------------------------------------------------------------------ offline


def _train_offline(config: GRPOTrainingConfig) -> int:
    from grpo_training.finetune.data.rollout_data import load_groups, split_validation
    from grpo_training.finetune.data.samples import DropReport
    from grpo_training.finetune.data.teacher_samples import load_teacher_samples
    from grpo_training.finetune.data.tokenising import tokenise_groups
    from grpo_training.finetune.model_loading import load_tokenizer

    groups, report = load_groups(config)
    _refuse_nothing(groups, config, report)
    tokenizer = load_tokenizer(config)
    training, held_out = split_validation(groups, config.validation_share, config.seed)
    samples, dropped = tokenise_groups(training, tokenizer, config)
    validation, also_dropped = tokenise_groups(held_out, tokenizer, config)
    report = report.merged(dropped).merged(also_dropped)
    _refuse_nothing(samples, config, report)
    teacher: list[Sample] = []
    if config.teacher_traces is not None and config.teacher_sft_weight > 0:
        of_teacher = DropReport()
        teacher = load_teacher_samples(config.teacher_traces, tokenizer, config, of_teacher)
        report = report.merged(of_teacher)
    _say(_offline_plan(config, samples, validation, teacher), report)
    if config.dry_run:
        return 0

    from grpo_training.finetune.offline.batches import fingerprint
    from grpo_training.finetune.offline.loop import train_offline

    facts = {"model": _model_digest(config), "samples": fingerprint([*samples, *validation, teacher])[:16]}
    return _in_run_directory(config, facts, lambda folder: train_offline(config, samples, validation, teacher, folder))


def _refuse_nothing(groups: Sequence[Any], config: GRPOTrainingConfig, report: DropReport) -> None:
    if not groups:
        raise InputError(
            f"Nothing is left to train on in {config.dataset_path}",
            why=str(report) or "It holds no groups.",
            fix="Collect more rollouts (more problems, a higher temperature), or mend what is counted above.",
        )


def _offline_plan(
    config: GRPOTrainingConfig,
    samples: Sequence[Sequence[Sample]],
    validation: Sequence[Sequence[Sample]],
    teacher: Sequence[Sample],
) -> list[tuple[str, str]]:
    from grpo_training.finetune.offline.batches import plan_steps

    rows = [sample for group in samples for sample in group]
    steps = plan_steps([len(group) for group in samples], config, int(os.environ.get("WORLD_SIZE", "1")))
    stages = Counter(step.stage for step in steps)
    lengths = sorted(sample.length for sample in rows)
    sources = Counter(sample.ids_source for sample in rows)
    known = sum(sample.old_logps is not None for sample in rows)
    return [
        ("model", f"{config.model_name_or_path} ({_trained_part(config)})"),
        ("data", f"{config.dataset_path} (experiences: {config.experiences}, prompts: {config.prompts})"),
        ("training", f"{len(samples)} groups, {len(rows)} replies; held out: {len(validation)} groups"),
        ("rewards", f"mean {statistics.fmean(row.reward for row in rows):.3f}, {_right(rows)}"),
        ("tokens of a row", f"median {lengths[len(lengths) // 2]}, most {lengths[-1]}, all {sum(lengths)}"),
        ("ids", f"{sources['server']} from the server, {sources['retokenized']} from the text; log-probs of {known}"),
        ("loss", _loss_terms(config, len(teacher))),
        ("steps", f"{len(steps)} ({', '.join(f'{stage} {count}' for stage, count in stages.items())})"),
        ("run directory", str(config.output_dir)),
    ]


def _right(rows: Sequence[Sample]) -> str:
    verdicts = [row.is_correct for row in rows if row.is_correct is not None]
    return f"{sum(verdicts)} of {len(verdicts)} right" if verdicts else "no verdicts"


# ------------------------------------------------------------------ online


def _train_online(config: GRPOTrainingConfig) -> int:
    from engine.datasets import load_problems
    from engine.task import task_named
    from grpo_training.finetune.data.samples import DropReport
    from grpo_training.finetune.model_loading import check_model

    if config.dataset is None:
        raise InputError("mode online needs dataset: the problems to sample on")
    problems = load_problems(config.dataset, max_problems=config.max_problems)
    for problem in problems:
        task_named(problem.task).check_problem(problem)
    check_model(config)
    _say(_online_plan(config, problems), DropReport())
    if config.dry_run:
        return 0

    from grpo_training.finetune.online.run import train_online

    facts = {"model": _model_digest(config), "problems": _problems_hash(problems)}
    return _in_run_directory(config, facts, lambda folder: train_online(config, problems, folder))


def _online_plan(config: GRPOTrainingConfig, problems: Sequence[Problem]) -> list[tuple[str, str]]:
    tasks = Counter(problem.task for problem in problems)
    return [
        ("model", f"{config.model_name_or_path} ({_trained_part(config)})"),
        ("problems", f"{len(problems)} of {config.dataset} ({', '.join(f'{name} {n}' for name, n in tasks.items())})"),
        ("sampling", f"{config.num_generations} a problem, temperature {config.temperature}, top_p {config.top_p}"),
        ("loss", _loss_terms(config, None)),
        ("length", f"{config.max_steps} steps" if config.max_steps > 0 else f"{config.num_train_epochs} epochs"),
        ("run directory", str(config.output_dir)),
    ]


def _problems_hash(problems: Iterable[Problem]) -> str:
    import hashlib

    digest = hashlib.sha256()
    for problem in problems:
        digest.update(problem.model_dump_json().encode())
    return digest.hexdigest()[:16]


# ------------------------------------------------------------------ both


def _model_digest(config: GRPOTrainingConfig) -> str | None:
    """Names the weights that training begins with; None for a model of the hub."""
    from grpo_training.serving.model_folder import content_digest

    folder = Path(config.model_name_or_path).expanduser()
    return content_digest([folder]) if folder.is_dir() else None


def _in_run_directory(
    config: GRPOTrainingConfig, facts: dict[str, Any], train: Callable[[Path], TrainingResult]
) -> int:
    """Train in the run directory, which the first process holds; the others of a distributed run just train."""
    if os.environ.get("RANK", "0") != "0":
        train(config.output_dir)
        return 0

    from grpo_training.viewer.training_page import write_page

    folder = config.output_dir
    with RunDirectory(folder).open(config, facts) as manifest:
        if manifest.is_finished:
            print(f"This training is finished: {folder}. Pass --fresh to train again, or choose another --output-dir.")
            return 0
        result = train(folder)
        page = write_page(folder)
        manifest.finish()
    print(f"trained {result.steps} steps in {result.seconds:.0f} s")
    for name, path in (("adapter", result.adapter), ("merged model", result.merged), ("curves", page)):
        if path is not None:
            print(f"  {name:13} {path}")
    print(f"  serve it      python -m grpo_training.serve --model {result.merged}")
    return 0


def _trained_part(config: GRPOTrainingConfig) -> str:
    return f"LoRA of rank {config.lora_r}" if config.use_peft else "all weights"


def _loss_terms(config: GRPOTrainingConfig, traces: int | None) -> str:
    """The terms of the loss with their weights. ``traces``: how many there are; None: not read yet."""
    before = f"RCE for {config.rce_epochs} epochs, then " if config.rce_epochs else ""
    terms = [f"{before}{config.grpo_weight:g} {config.loss_type}", f"beta {config.beta:g}"]
    if config.teacher_traces is not None and traces != 0:
        count = "" if traces is None else f" ({traces} traces)"
        terms.append(f"{config.teacher_sft_weight:g} teacher-SFT{count}")
    if config.self_sft_weight:
        terms.append(f"{config.self_sft_weight:g} self-SFT")
    return ", ".join(terms)


def _say(plan: Iterable[tuple[str, str]], report: DropReport) -> None:
    if os.environ.get("RANK", "0") != "0":
        return
    for name, value in plan:
        print(f"{name:16} {value}")
    if report:
        print(report)
