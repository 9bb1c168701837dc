"""Cases: solved problems, shortened, that stand in the prompts of similar ones."""

from __future__ import annotations

from collections.abc import Sequence

from agents.analyst import Attempt
from engine.reading.control_characters import as_one_line, without_control_characters
from engine.records import Problem
from engine.tasks.registry import task_named

_PROBLEM_HEAD, _PROBLEM_TAIL = 300, 200
"""Characters of the beginning and of the end of a problem."""
_ANSWER = 200
_REPLY = 600
"""Characters of a reply that shows how the answer is found: about 150 tokens."""


def case_of(problem: Problem, attempts: Sequence[Attempt]) -> str | None:
    """The text of a case.

    Args:
        problem: the solved problem.
        attempts: at it; the shortest right one is shown where an answer needs work.

    Returns:
        None where the answer alone shows nothing, and no right attempt is short enough.
    """
    task = task_named(problem.task)
    question, teaching = as_one_line(_shortened(problem.text)), task.teaching(problem)
    answer = teaching.answer
    if not teaching.is_choice:
        right = [attempt.text.strip() for attempt in attempts if attempt.is_correct]
        shown = min(right, key=len, default="")
        if 0 < len(shown) <= _REPLY:
            return f"{question}\n{without_control_characters(shown)}"
    if answer is None or len(answer) > _ANSWER:
        return None
    return f'When a problem is like "{question}", the answer is {as_one_line(answer)}.'


def _shortened(text: str) -> str:
    if len(text) <= _PROBLEM_HEAD + _PROBLEM_TAIL:
        return text
    return f"{text[:_PROBLEM_HEAD]} [...] {text[-_PROBLEM_TAIL:]}"
