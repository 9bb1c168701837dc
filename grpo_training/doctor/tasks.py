"""Checks of the kinds of task: their examples, scored as in training."""

from __future__ import annotations

from collections.abc import Iterator

from engine.contract.checks import CheckResult, passed_if
from engine.datasets import load_problems
from engine.records import Completion
from engine.task import validate
from engine.tasks.registry import task_named
from grpo_training.cli.settings import POCKET_DATASET
from grpo_training.teacher.connection import tasks_with_example

_SHOWN = (str, int, float)
"""The types of details that fit into a line."""


def execution() -> Iterator[CheckResult]:
    """The right reply of each example has ``r_ans`` 1 and the wrong one 0; the gold reply is right, the empty one not.

    All of it is computed as in training.
    """
    for problem in (*load_problems(POCKET_DATASET, max_problems=1), *(one.problem for _, one in tasks_with_example())):
        faults = validate(task_named(problem.task), problem)
        yield passed_if(
            not faults,
            f"{problem.task}: {'; '.join(faults) or 'the gold reply scores 1, the empty reply 0'}",
            "If the sandbox is the cause: bubblewrap or user namespaces must be permitted.",
        )
    for task, example in tasks_with_example():
        for name, reply, expected in (("right", example.right, 1.0), ("wrong", example.wrong, 0.0)):
            candidate = task.parse(Completion(text=reply), example.problem)
            measured = task.evaluate(candidate, example.problem)
            r_ans = measured.components.get("r_ans")
            found = "; ".join(f"{key}: {value}" for key, value in measured.detail.items() if isinstance(value, _SHOWN))
            yield passed_if(
                r_ans == expected,
                f"{task.name}: the {name} reply has r_ans {r_ans} ({found})",
                "If the sandbox is the cause: bubblewrap or user namespaces must be permitted.",
            )
