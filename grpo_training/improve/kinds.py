"""Problems of several kinds in one dataset, of which one prompt can serve one kind only."""

from __future__ import annotations

from collections.abc import Sequence

from agents.generator import generator_messages
from engine.abilities import ReadsQuestions
from engine.records import Problem
from engine.tasks.registry import task_named


def common_kind(problems: Sequence[Problem], style: str) -> tuple[Problem, str]:
    """A problem whose prompt can be taken home: of the kind that most problems have.

    Args:
        problems: of the dataset.
        style: prompt style.

    Returns:
        the first problem of the kind, and a remark on those of other kinds, which is empty if there are none.
    """
    by_kind: dict[str, list[Problem]] = {}
    for problem in problems:
        by_kind.setdefault(_instructions(problem, style), []).append(problem)
    common = max(by_kind.values(), key=len)
    others = len(problems) - len(common)
    remark = (
        f"{others} of {len(problems)} problems were asked with other instructions than those of this prompt, as they "
        "have another task or another kind of answer. For their prompt, run improve on these problems alone."
    )
    return common[0], remark if others else ""


def _instructions(problem: Problem, style: str) -> str:
    """What the prompt of a problem says beside the texts of the problem itself."""
    task = task_named(problem.task)
    if isinstance(task, ReadsQuestions):  # the prompt of a question is made from its row
        return task.name
    messages = generator_messages(task, problem.model_copy(update={"text": ""}), (), style)
    return "\n".join([task.name, *(message.content for message in messages)])
