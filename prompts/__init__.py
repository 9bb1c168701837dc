"""Prompt templates (``*.j2``) that tasks share, and the loader, which looks in a task's own folders first."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import (
    BaseLoader,
    ChoiceLoader,
    DictLoader,
    Environment,
    FileSystemLoader,
    StrictUndefined,
    TemplateNotFound,
    TemplateSyntaxError,
    meta,
)

from engine.errors import TemplateError
from engine.reading.model_text import break_special_tokens, has_special_token
from engine.records import Experience, Message
from engine.task import Task
from prompts.fencing import add_filters, render_with_number

_SHARED = Path(__file__).resolve().parent
_BASED_ON = {"pocket": "compact"}
"""Styles that take what they lack from another one; the others take it from ``full``."""


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
        TemplateError: files are missing, empty or invalid, or use other variables; names all of them at once.
    """

    def __init__(
        self,
        name: str,
        variables: Iterable[str],
        style: str = "full",
        task: Task | None = None,
        optional: Iterable[str] = (),
    ) -> None:
        self.name = name
        self.variables, self._optional = frozenset(variables), frozenset(optional)
        self._environment = _environment(style, task)
        sources, problems = _Sources(), []
        is_own = f"{name}_user.j2" in own_templates(style)  # the user's text need not show what the task has to say
        for part in ("system", "user"):
            problems += sources.read(self._environment, f"{name}_{part}.j2")
        if not problems:
            missing = sorted(sources.variables - self.variables - self._optional)
            unused = sorted(self.variables - sources.variables)
            problems += [f"it uses {', '.join(missing)}, which the caller does not pass"] if missing else []
            problems += [f"it does not use {', '.join(unused)}"] if unused and not is_own else []
        if problems:
            of_task = f" of the task {task.name!r}" if task is not None else ""
            raise TemplateError(
                f"Invalid prompt template {name!r}{of_task}, style {style!r}: {'; '.join(problems)}",
                fix=f"Templates are looked up in {', '.join(map(str, _folders(style, task)))}.",
            )
        self.hash = sources.digest.hexdigest()[:12]

    def render(self, **values: Any) -> tuple[Message, ...]:
        """The conversation: a system and a user message. ``values`` are the declared variables and optional ones."""
        if values.keys() - self._optional != self.variables:
            raise TemplateError(f"Prompt template {self.name!r} takes {sorted(self.variables)}, not {sorted(values)}")
        values = dict.fromkeys(self._optional, ()) | values
        if "experiences" in values:
            values["experiences"] = _harmless(values["experiences"])
        system, user = (self._environment.get_template(f"{self.name}_{part}.j2") for part in ("system", "user"))
        messages = (
            Message(role="system", content=system.render(**values)),
            Message(role="user", content=render_with_number(lambda **number: user.render(**values, **number))),
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
    block = '{% include "experience_block.j2" %}'
    user = _escaped(text, {"problem": "{{ problem }}", "experiences": block})
    if "{{ problem }}" not in user:
        user, system = f"{block}\nProblem:\n{{{{ problem }}}}", _escaped(text, {})
    else:
        user, system = user if block in user else f"{block}\n{user}", "{# none #}"
    return {"generator_system.j2": system, "generator_user.j2": user}


def _escaped(text: str, known: Mapping[str, str]) -> str:
    """A text as the source of a template in which these names in double braces are replaced."""
    parts = re.split(r"\{\{\s*(\w+)\s*\}\}", text) if known else [text]
    pieces = []
    for index, part in enumerate(parts):
        is_name = index % 2 == 1
        if is_name and part in known:
            pieces.append(known[part])
        else:
            plain = f"{{{{ {part} }}}}" if is_name else part
            pieces.append("{{ " + json.dumps(plain, ensure_ascii=False) + " }}" if plain else "")
    return "".join(pieces)


def experience_block(experiences: Iterable[Experience]) -> str:
    """The experiences as they appear in every prompt; empty text if there are none."""
    template = _environment("full", None).get_template("experience_block.j2")
    return template.render(experiences=_harmless(experiences)).strip("\n")


def _harmless(experiences: Iterable[Experience]) -> list[Experience]:
    """The experiences without tokens of chat templates, which libraries of other programs may have."""
    return [
        experience.model_copy(update={"content": break_special_tokens(experience.content)})
        if has_special_token(experience.content)
        else experience
        for experience in experiences
    ]


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


def _environment(style: str, task: Task | None) -> Environment:
    folders, own = _folders(style, task), own_templates(style)
    if style != "full" and not own and not any(folder.is_dir() for folder in folders if folder.name == style):
        raise TemplateError(
            f"Unknown prompt style {style!r}",
            fix=f"Choose one of: {', '.join(prompt_styles())}; or give a file with instructions of your own.",
        )
    given: Mapping[str, str] = task.templates if task is not None else {}
    loaders: list[BaseLoader] = [DictLoader({**given, **own}), FileSystemLoader(folders)]
    environment = Environment(  # noqa: S701 - the text goes to a model, not to a browser
        loader=ChoiceLoader(loaders), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    add_filters(environment)
    return environment


class _Sources:
    """The sources of templates with all that they include: their variables and a digest."""

    def __init__(self) -> None:
        self.variables: set[str] = set()
        self.digest = hashlib.sha256()

    def read(self, environment: Environment, file: str) -> list[str]:
        """Add a template; returns what is wrong with it."""
        if environment.loader is None:
            raise TemplateError("a template environment without a loader")
        try:
            source, _, _ = environment.loader.get_source(environment, file)
            tree = environment.parse(source)
        except TemplateNotFound:
            return [f"{file} not found"]
        except TemplateSyntaxError as error:
            return [f"{file} does not parse: {error}"]
        if not source.strip():
            return [f"{file} is empty"]
        self.variables |= set(meta.find_undeclared_variables(tree))
        self.digest.update(source.encode())
        problems = []
        for included in meta.find_referenced_templates(tree):
            if included is None:
                problems.append(f"{file} includes a template by a computed name")
            else:
                problems += self.read(environment, included)
        return problems
