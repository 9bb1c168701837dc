"""Cases: solved problems as experiences."""

from __future__ import annotations

from collections.abc import Sequence

from engine.experience.library import ExperienceLibrary
from engine.reading.model_text import as_one_line, without_control_characters
from engine.records import Operation, Problem
from engine.task_protocols import images_of
from engine.tasks.registry import task_named
from grpo_training.agents.analyst import Attempt

_PROBLEM_HEAD, _PROBLEM_TAIL = 300, 200
"""Characters of the beginning and of the end of a problem."""
_ANSWER = 200
_REPLY = 600
"""Characters of a reply that shows how the answer is found: about 150 tokens."""


def case_of(problem: Problem, attempts: Sequence[Attempt]) -> Operation | None:
    """The addition of a problem as a case.

    Args:
        problem: the solved problem.
        attempts: at it; the shortest right one is shown where an answer needs work.

    Returns:
        None where the answer alone shows nothing, and no right attempt is short enough; or the problem has an image,
        which no case shows.
    """
    task = task_named(problem.task)
    question, teaching = as_one_line(_shortened(problem.text)), task.teaching(problem)
    right = [attempt.text.strip() for attempt in attempts if attempt.is_correct and not teaching.is_choice]
    shown = min(right, key=len, default="")
    if images_of(task, problem):
        return None
    if 0 < len(shown) <= _REPLY:
        content = f"{question}\n{without_control_characters(shown)}"
    elif teaching.answer is not None and len(teaching.answer) <= _ANSWER:
        content = f'When a problem is like "{question}", the answer is {as_one_line(teaching.answer)}.'
    else:
        return None
    # Of a program the last prompt asks for the answer.
    category = [*teaching.steps][-1] if teaching.steps else category_of(problem)
    return Operation(op="add", content=content, kind="case", category=category)


def _shortened(text: str) -> str:
    if len(text) <= _PROBLEM_HEAD + _PROBLEM_TAIL:
        return text
    return f"{text[:_PROBLEM_HEAD]} [...] {text[-_PROBLEM_TAIL:]}"


def category_of(problem: Problem) -> str:
    """The category of what is learned from a problem: that of its task or of its row, else the name of its task."""
    category = task_named(problem.task).teaching(problem).category or problem.meta.get("category")
    return category if isinstance(category, str) else problem.task


def add_other_cases(library: ExperienceLibrary, problems: Sequence[Problem]) -> None:
    """Make cases of the problems that have none, where cases are in use and an answer alone shows something.

    This needs no request. The more problems there are, the more alike is the one that is the most similar to a new
    one. So those that are held out become cases too: in the test each is asked without its own.

    Args:
        library: that has learned.
        problems: of which a case may stand in the prompts of others.
    """
    if not any(experience.kind == "case" for experience in library.state.tested):
        return
    cases = [(source, case_of(source, ())) for source in problems if task_named(source.task).teaching(source).is_choice]
    library.add_cases([(source, case) for source, case in cases if case is not None])
