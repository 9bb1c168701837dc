"""Checks of prompt templates, datasets, libraries, prepared data and teacher traces."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pydantic import ValidationError

from agents.generator import prompt_hash
from agents.templates import TEMPLATE_NAMES, check_prompts, role_template
from engine.contract.checks import CheckResult, failure_of, passed, passed_if, warned
from engine.datasets import load_problems
from engine.errors import ScaffoldError
from engine.experience.file import parse_library
from engine.storage.lines import Line, LineReader
from engine.storage.shipped_files import shipped_file
from engine.tasks.registry import known_tasks
from grpo_training.cli.settings import DEFAULT_DATASET
from grpo_training.cli.terminal_text import counted
from grpo_training.teacher.traces import TeacherTrace
from prompts import prompt_styles

_ROWS_READ = 200


def prompts() -> Iterator[CheckResult]:
    """Every prompt template of every style and task loads and has the variables that its caller gives."""
    tasks = list(known_tasks())
    for style in prompt_styles():
        try:
            check_prompts(tasks, style)
            hashes = [role_template(name, task, style).hash for task in tasks for name in TEMPLATE_NAMES]
        except ScaffoldError as error:
            yield failure_of(error, f"prompt style {style}")
        else:
            yield passed(f"prompt style {style}: {len(set(hashes))} prompts for {len(tasks)} kinds of task")


def default_dataset() -> Iterator[CheckResult]:
    """The dataset of commands that are given none can be read. It is fetched if it is not on this machine."""
    try:
        problems = load_problems(DEFAULT_DATASET)
    except ScaffoldError as error:
        yield warned(": ".join(filter(None, (error.what, error.why))), error.fix)
    else:
        yield passed(f"{DEFAULT_DATASET}: {len(problems)} problems")


def data_files(folder: Path) -> Iterator[CheckResult]:
    """Shipped datasets, libraries, prepared data and traces: those that exist are readable.

    Of prepared data and traces the missing ones are named where there are others of them.
    """
    for path in sorted(shipped_file("datasets").glob("*.jsonl")):
        yield passed(f"{path.name}: {len(load_problems(str(path)))} problems")
    for path in sorted((folder / "grpo_experiences").glob("*_experiences.json")):
        yield _library(path)
    prepared, traces = (folder / "train.jsonl", folder / "val.jsonl"), folder / "teacher_traces.jsonl"
    if not any(path.exists() for path in (*prepared, traces)):
        return  # nobody trains on traces here
    for path in prepared:
        if path.exists():
            rows = len(load_problems(str(path), max_problems=_ROWS_READ))
            yield passed(f"{path.name}: the first {rows} problems are readable")
        else:
            yield warned(f"{path} does not exist yet", "python -m grpo_training.prepare_data")
    if traces.exists():
        yield from _traces(traces)
    else:
        yield warned(f"{traces} does not exist yet", "python -m grpo_training.generate_teacher_traces")


def _library(path: Path) -> CheckResult:
    try:
        entries = parse_library(path.read_bytes(), path)
    except ScaffoldError as error:
        return failure_of(error)
    return passed(f"{path.name}: {counted(len(entries), 'experience')}")


def _traces(path: Path) -> Iterator[CheckResult]:
    lines = list(islice(LineReader(path).read(to_the_end=True), _ROWS_READ))
    traces = [trace for line in lines if (trace := _trace(line)) is not None]
    yield passed_if(
        len(traces) == len(lines),
        f"{path.name}: {len(traces)} of the first {len(lines)} lines are valid traces",
        "The next run of generate_teacher_traces repairs a truncated last line; other damaged lines are ignored.",
    )
    current = {prompt_hash(task, style) for task in known_tasks() for style in prompt_styles()}
    if any(not trace.prompt_hash for trace in traces):
        yield warned(
            f"{path.name}: some traces are of another program and were not executed here",
            f"Training ignores them. Run their tests: python -m grpo_training.verify_teacher_traces --traces {path} "
            "--output FILE",
        )
    outdated = {trace.prompt_hash for trace in traces if trace.prompt_hash} - current
    if outdated:
        yield warned(
            f"{path.name}: some traces were made with prompts that no longer exist ({', '.join(sorted(outdated))})",
            "Training ignores them. Make new ones: python -m grpo_training.generate_teacher_traces --fresh",
        )


def _trace(line: Line) -> TeacherTrace | None:
    try:
        return TeacherTrace.model_validate_json(line.text)
    except ValidationError:  # a truncated line has an empty text
        return None
