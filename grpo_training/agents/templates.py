"""The prompt templates of the roles: their names and variables."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from engine.task import Task
from engine.tasks.registry import known_tasks
from prompts import PromptTemplate

_EXTRACTION = {"problem", "ground_truth", "attempts"}
_OPTIONAL = {"learner", "max_words", "asked_for", "experiences"}
"""What the analyst is told too; a model that was trained on a prompt may do without. ``experiences`` stand only in
prompts that the pocket model was trained with."""
_VARIABLES = {
    "generator": {"problem", "experiences"},
    "critic": {"problem", "experiences", "generator_id", "proposals", "conflicts"},
    "generator_experience_extraction": _EXTRACTION,
    "critic_experience_extraction": _EXTRACTION,
    "instruction": {"max_words", "misses", "instructions"},
    "judge": {"problem", "scaffold"},
    "rubric_judge": {"problem", "rubric", "answer"},
}
_WITH_TASK_VARIABLES = ("generator", "critic")

TEMPLATE_NAMES = tuple(_VARIABLES)


@cache
def role_template(name: str, task: Task, style: str = "full") -> PromptTemplate:
    """A prompt template of a task, loaded once per process.

    Args:
        name: one of ``TEMPLATE_NAMES``.
        task: the task.
        style: prompt style; a file with the user's own instructions, for the generator.

    Raises:
        TemplateError: there is no such style, or the template does not have the variables of its role.
    """
    of_task = task.prompt_variables if name in _WITH_TASK_VARIABLES else frozenset()
    optional = _OPTIONAL if _VARIABLES[name] is _EXTRACTION else set()
    return PromptTemplate(name, _VARIABLES[name] | of_task, style, task, optional)


def check_prompts(tasks: Iterable[Task] | None, style: str) -> None:
    """Load the templates of all roles, so that errors appear before the first request.

    Args:
        tasks: whose templates are loaded; None: all tasks.
        style: prompt style.

    Raises:
        TemplateError: one is missing or invalid.
    """
    for task in known_tasks() if tasks is None else tasks:
        for name in TEMPLATE_NAMES:
            role_template(name, task, style)
