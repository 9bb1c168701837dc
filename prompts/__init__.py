"""Prompt templates (``*.j2``) and their one loader. No logic: what is said stands in the templates."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import TemplateError
from engine.records import Experience, Message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jinja2 import Environment

_HERE = Path(__file__).resolve().parent


class PromptTemplate:
    """A pair ``NAME_system.j2`` and ``NAME_user.j2``, checked when it is loaded.

    Args:
        name: such as ``generator``, ``critic``, ``analyst``, ``judge``.
        variables: what the caller will give to :meth:`render`. A template that needs more, or that leaves one
            unused, is refused here and not when a group is ready to learn.
        style: ``full``, or a sub-folder of ``prompts`` such as ``compact``.

    Raises:
        TemplateError: a file is missing or empty, does not parse, or asks for other variables.
    """

    def __init__(self, name: str, variables: Iterable[str], style: str = "full") -> None:
        self.name = name
        self.variables = frozenset(variables)
        folder = _HERE if style == "full" else _HERE / style
        self._environment = _environment(folder)
        needed: set[str] = set()
        digest = hashlib.sha256()
        for part in ("system", "user"):
            for source, undeclared in _sources(self._environment, folder, f"{name}_{part}.j2"):
                needed |= undeclared
                digest.update(source.encode())
        if needed != self.variables:
            missing, unused = sorted(needed - self.variables), sorted(self.variables - needed)
            raise TemplateError(
                f"Prompt template {name!r} does not fit its caller",
                why="; ".join(
                    text
                    for text in (
                        f"it needs {', '.join(missing)}, which nobody gives" if missing else "",
                        f"it leaves {', '.join(unused)} unused" if unused else "",
                    )
                    if text
                ),
                fix=f"Mend {folder}/{name}_system.j2 or {name}_user.j2.",
            )
        self.hash = digest.hexdigest()[:12]

    def render(self, **values: Any) -> tuple[Message, ...]:
        """The conversation, a system and a user message. ``values`` are exactly the declared variables."""
        if values.keys() != self.variables:
            raise TemplateError(f"Prompt template {self.name!r} takes {sorted(self.variables)}, not {sorted(values)}")
        system = self._environment.get_template(f"{self.name}_system.j2").render(**values)
        user = self._environment.get_template(f"{self.name}_user.j2").render(**values)
        return Message(role="system", content=system), Message(role="user", content=user)


@cache
def task_template(role: str, prefix: str, variables: frozenset[str], style: str = "full") -> PromptTemplate:
    """A role's prompt for a kind of task, loaded once in a process.

    Args:
        role: such as ``generator``, ``critic``, ``analyst``.
        prefix: whose it is: ``code`` for ``code_generator_system.j2``, empty for the prompt that tasks share.
        variables: what the caller will give to it.
        style: ``full``, or a sub-folder; what is not there is taken from ``full``.
    """
    return PromptTemplate(f"{prefix}_{role}" if prefix else role, variables, style)


def experience_block(experiences: Iterable[Experience], style: str = "full") -> str:
    """The experiences as they stand in every prompt; empty text where there are none."""
    folder = _HERE if style == "full" else _HERE / style
    template = _environment(folder).get_template("experience_block.j2")
    return template.render(experiences=list(experiences)).strip("\n")


def _environment(folder: Path) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    if not folder.is_dir():
        styles = sorted(path.name for path in _HERE.iterdir() if path.is_dir() and any(path.glob("*.j2")))
        raise TemplateError(f"No prompts in {folder}", fix=f"Choose one of: {', '.join(['full', *styles])}.")
    return Environment(  # noqa: S701 - the text goes to a model, not to a browser
        loader=FileSystemLoader([folder, _HERE]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _sources(environment: Environment, folder: Path, file: str) -> list[tuple[str, set[str]]]:
    """The template and all that it includes: (source, undeclared variables) each."""
    from jinja2 import TemplateNotFound, TemplateSyntaxError, meta

    loader = environment.loader
    if loader is None:
        raise TemplateError("a template environment without a loader")
    try:
        source, _, _ = loader.get_source(environment, file)
        tree = environment.parse(source)
    except TemplateNotFound as error:
        raise TemplateError(f"Prompt template not found: {folder / file}") from error
    except TemplateSyntaxError as error:
        raise TemplateError(f"Prompt template {folder / file} does not parse: {error}") from error
    if not source.strip():
        raise TemplateError(f"Prompt template is empty: {folder / file}")
    found = [(source, set(meta.find_undeclared_variables(tree)))]
    for included in meta.find_referenced_templates(tree):
        if included is None:
            raise TemplateError(f"{file} includes a template by a computed name")
        found += _sources(environment, folder, included)
    return found
