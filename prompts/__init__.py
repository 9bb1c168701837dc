"""Prompt templates (``*.j2``) that tasks share, and the loader, which looks in a task's own folders first."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import meta

from engine.errors import TemplateError
from engine.reading.model_text import break_special_tokens
from engine.records import Message
from engine.task import Task
from prompts.fencing import add_filters, render_with_number

_SHARED = Path(__file__).resolve().parent
_BASED_ON = {"pocket": "compact"}
"""Styles that take what they lack from another one; the others take it from ``full``."""
_PARTS = ("system", "user")
_PLACES = {"problem": "{{ problem }}", "experiences": '{% include "experience_block.j2" %}'}
"""What a user's own instructions may name in double braces -> the template of it."""


class PromptTemplate:
    """A pair of templates, ``NAME_system.j2`` and ``NAME_user.j2``, checked when it is loaded.

    Args:
        name: such as ``generator``, ``critic``, ``judge``.
        variables: what the caller passes to :meth:`render`. The templates must use exactly these variables.
        style: ``full``, the name of a sub-folder such as ``compact``, or a file with the user's own instructions for
            generators; see :func:`own_templates`. A template that the style lacks is taken from ``full``.
        task: the task whose own templates take precedence; None: the shared templates only.
        optional: variables that the templates may use, and the caller may pass; empty lists by default.

    Raises:
        TemplateError: a file is missing or invalid, or the templates use other variables.
    """

    def __init__(
        self,
        name: str,
        variables: Iterable[str],
        style: str = "full",
        task: Task | None = None,
        optional: Iterable[str] = (),
    ) -> None:
        self.variables, self._optional = frozenset(variables), frozenset(optional)
        environment = _environment(style, task)
        is_own = f"{name}_user.j2" in own_templates(style)  # the user's text need not show what the task has to say
        problems = []
        try:
            sources = [source for role in _PARTS for source in _sources(environment, f"{name}_{role}.j2")]
        except jinja2.TemplateNotFound as error:
            problems = [f"{error} not found"]
        except jinja2.TemplateSyntaxError as error:
            problems = [f"{error.name} does not parse: {error}"]
        else:
            used = set().union(*(meta.find_undeclared_variables(environment.parse(source)) for source in sources))
            missing, unused = sorted(used - self.variables - self._optional), sorted(self.variables - used)
            problems += [f"it uses {', '.join(missing)}, which the caller does not pass"] if missing else []
            problems += [f"it does not use {', '.join(unused)}"] if unused and not is_own else []
        if problems:
            of_task = f" of the task {task.name!r}" if task is not None else ""
            raise TemplateError(
                f"Invalid prompt template {name!r}{of_task}, style {style!r}: {'; '.join(problems)}",
                fix=f"Templates are looked up in {', '.join(map(str, _folders(style, task)))}.",
            )
        self.hash = hashlib.sha256("".join(sources).encode()).hexdigest()[:12]
        self._system, self._user = (environment.get_template(f"{name}_{role}.j2") for role in _PARTS)

    def render(self, **values: Any) -> tuple[Message, ...]:
        """The conversation: a system and a user message. ``values`` are the declared variables and optional ones."""
        values = dict.fromkeys(self._optional, ()) | values
        if "experiences" in values:  # libraries of other programs may have tokens of chat templates
            values["experiences"] = [
                experience.model_copy(update={"content": break_special_tokens(experience.content)})
                for experience in values["experiences"]
            ]
        messages = (
            Message(role="system", content=self._system.render(**values)),
            Message(role="user", content=render_with_number(lambda **number: self._user.render(**values, **number))),
        )
        return messages if messages[0].content else messages[1:]


def own_templates(style: str) -> Mapping[str, str]:
    """The templates of a style that is a file; empty for other styles.

    The text of the file is the system message. If it has ``{{ problem }}``, it is the user message instead, and there
    is no system message; ``{{ experiences }}`` is where experiences stand, by default its beginning. Nothing else of
    the text is evaluated.

    Raises:
        TemplateError: the file is empty or no text.
    """
    path = Path(style)
    if style == "full" or (_SHARED / style).is_dir() or not path.is_file():
        return {}
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise TemplateError(f"{path} is no text in UTF-8", fix=str(error)) from None
    if not text:
        raise TemplateError(f"{path} is empty", fix="Write the instructions for the model in it.")
    fragments = re.split(r"\{\{\s*(problem|experiences)\s*\}\}", text)
    places = fragments[1::2]
    if "problem" not in places:
        user = f"{_PLACES['experiences']}\nProblem:\n{_PLACES['problem']}"
        return {"generator_system.j2": _literal(text), "generator_user.j2": user}
    user = "".join(_PLACES[fragment] if index % 2 else _literal(fragment) for index, fragment in enumerate(fragments))
    if "experiences" not in places:
        user = f"{_PLACES['experiences']}\n{user}"
    return {"generator_system.j2": "{# none #}", "generator_user.j2": user}


def _literal(text: str) -> str:
    """The source of a template that gives this text."""
    return "{{ " + json.dumps(text, ensure_ascii=False) + " }}" if text else ""


def prompt_styles() -> list[str]:
    """The prompt styles of the project."""
    return ["full", *sorted(path.name for path in _SHARED.iterdir() if path.is_dir() and any(path.glob("*.j2")))]


def _folders(style: str, task: Task | None) -> list[Path]:
    """Where templates are looked up, in order of precedence."""
    homes = [*(task.prompt_folders if task is not None else ()), _SHARED]
    if style == "full":
        return homes
    styles = [name for name in (style, _BASED_ON.get(style)) if name]
    return [folder for home in homes for folder in (*(home / name for name in styles), home)]


def _environment(style: str, task: Task | None) -> jinja2.Environment:
    folders, of_file = _folders(style, task), own_templates(style)
    if style != "full" and not of_file and not any(folder.is_dir() for folder in folders if folder.name == style):
        raise TemplateError(
            f"Unknown prompt style {style!r}",
            fix=f"Choose one of: {', '.join(prompt_styles())}; or give a file with instructions of your own.",
        )
    of_task: Mapping[str, str] = task.templates if task is not None else {}
    loaders: list[jinja2.BaseLoader] = [jinja2.DictLoader({**of_task, **of_file}), jinja2.FileSystemLoader(folders)]
    environment = jinja2.Environment(  # noqa: S701 - the text goes to a model, not to a browser
        loader=jinja2.ChoiceLoader(loaders), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    add_filters(environment)
    return environment


def _sources(environment: jinja2.Environment, file: str) -> Iterator[str]:
    """The source of a template, and those of all that it includes."""
    if environment.loader is None:
        raise jinja2.TemplateNotFound(file)
    source, _, _ = environment.loader.get_source(environment, file)
    yield source
    for included in meta.find_referenced_templates(environment.parse(source, file)):
        yield from _sources(environment, str(included))
