"""The prompt templates of the roles: their names and variables."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from engine.task import Task
from prompts import PromptTemplate, check_templates, task_template

_EXTRACTION = frozenset(
    {"learner", "max_words", "max_operations", "experiences", "problem", "ground_truth", "attempts"}
)
_VARIABLES = {
    "generator": frozenset({"problem", "experiences"}),
    "critic": frozenset({"problem", "experiences", "generator_id", "proposals", "conflicts"}),
    "generator_experience_extraction": _EXTRACTION,
    "critic_experience_extraction": _EXTRACTION,
    "judge": frozenset({"problem", "scaffold"}),
    "rubric_judge": frozenset({"problem", "rubric", "answer"}),
}
_OPTIONAL = dict.fromkeys(("generator_experience_extraction", "critic_experience_extraction"), frozenset({"tried"}))
_WITH_TASK_VARIABLES = ("generator", "critic")

TEMPLATE_NAMES = tuple(_VARIABLES)


def role_template(name: str, task: Task, style: str = "full") -> PromptTemplate:
    """A prompt template of a task.

    Args:
        name: one of ``TEMPLATE_NAMES``.
        task: the task.
        style: prompt style.

    Raises:
        TemplateError: there is no such style, or the template does not have the variables of its role.
    """
    own = task.prompt_variables if name in _WITH_TASK_VARIABLES else frozenset()
    return task_template(name, task, _VARIABLES[name] | own, style, _OPTIONAL.get(name, frozenset()))


def check_prompts(tasks: Iterable[Task], style: str) -> None:
    """Load the templates of all roles, so that errors appear before the first request.

    Raises:
        TemplateError: some are missing or invalid; one error names all of them.
    """
    check_templates(partial(role_template, name, task, style) for task in tasks for name in TEMPLATE_NAMES)
