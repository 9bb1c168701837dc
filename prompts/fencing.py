"""Filters for text that models wrote: such a text must not look like a part of the prompt that it stands in.

``{{ text | fenced }}`` puts the text between two marks, ``{{ "begin" | fence }}`` and ``{{ "end" | fence }}``, with a
number that the text cannot contain, because it is computed from the finished prompt. ``{{ text | multi_line }}`` is for
a text between marks, and ``{{ text | one_line }}`` for a place inside a line. All of them remove control characters and
break the tokens of chat templates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from jinja2 import Environment, pass_context
from jinja2.runtime import Context

from engine.reading.model_text import as_one_line, break_special_tokens, without_control_characters

_NUMBER = "fence_number"
_DIGITS = 12


def add_filters(environment: Environment) -> None:
    """Add the filters to an environment."""
    environment.filters |= {"fence": _mark, "fenced": _fenced, "one_line": _one_line, "multi_line": _multi_line}


def render_with_number(render: Callable[..., str]) -> str:
    """Render a template whose fences have a number that depends on its content, so that equal prompts stay equal.

    Args:
        render: renders the template; called with the number as a variable.
    """
    text = render(**{_NUMBER: ""})
    if text == render(**{_NUMBER: "0" * _DIGITS}):
        return text  # it has no fence
    number = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return render(**{_NUMBER: number})


@pass_context
def _mark(context: Context, name: str) -> str:
    """A mark of the prompt's fences: ``{{ "begin" | fence }}`` is ``[begin 3f9a1c2b7d10]``."""
    return f"[{name} {context.get(_NUMBER, '')}]"


@pass_context
def _fenced(context: Context, text: object) -> str:
    return f"{_mark(context, 'begin')}\n{_multi_line(text)}\n{_mark(context, 'end')}"


def _one_line(text: object) -> str:
    return break_special_tokens(as_one_line(str(text)))


def _multi_line(text: object) -> str:
    return break_special_tokens(without_control_characters(str(text)))
