"""Checks of prompts, tasks, datasets and libraries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.datasets import load_problems
from engine.errors import ScaffoldError
from engine.experience.file import parse_library
from engine.installation_checks import CheckResult, failure_of, passed, passed_if
from engine.records import Completion
from engine.task import validate
from engine.task_protocols import ChecksItself
from engine.tasks.registry import known_tasks, task_named
from grpo_training.agents.templates import TEMPLATE_NAMES, check_prompts, role_template
from grpo_training.cli.settings import POCKET_DATASET
from grpo_training.cli.terminal_text import counted
from prompts import prompt_styles

_SHOWN = (str, int, float)
"""The types of details that fit into a line."""
_NO_SANDBOX = "If the sandbox is the cause: bubblewrap or user namespaces must be permitted."


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


def examples() -> Iterator[CheckResult]:
    """As in training, the gold reply of an example scores 1 and the empty one 0; so do its right and wrong replies."""
    with_example = [(task, task.example) for task in known_tasks() if isinstance(task, ChecksItself)]
    for problem in (*load_problems(POCKET_DATASET, max_problems=1), *(example.problem for _, example in with_example)):
        faults = validate(task_named(problem.task), problem)
        text = "; ".join(faults) or "the gold reply scores 1, the empty reply 0"
        yield passed_if(not faults, f"{problem.task}: {text}", _NO_SANDBOX)
    for task, example in with_example:
        for name, reply, expected in (("right", example.right, 1.0), ("wrong", example.wrong, 0.0)):
            measured = task.evaluate(task.parse(Completion(text=reply), example.problem), example.problem)
            r_ans = measured.components.get("r_ans")
            detail = "; ".join(f"{key}: {value}" for key, value in measured.detail.items() if isinstance(value, _SHOWN))
            yield passed_if(
                r_ans == expected, f"{task.name}: the {name} reply has r_ans {r_ans} ({detail})", _NO_SANDBOX
            )


def libraries(folder: Path) -> Iterator[CheckResult]:
    """The libraries can be read."""
    for path in sorted((folder / "grpo_experiences").glob("*_experiences.json")):
        try:
            entries = parse_library(path.read_bytes(), path)
        except ScaffoldError as error:
            yield failure_of(error)
        else:
            yield passed(f"{path.name}: {counted(len(entries), 'experience')}")
