"""The prompts of a group, with their experiences marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jinja2.filters import do_indent

from engine.records import RolloutGroup
from grpo_training.view.pages.rollout_view import View


def prompts_of(group: RolloutGroup, texts: Mapping[str, str]) -> list[View]:
    """The stored prompts of a group; ``half`` says which of its two prompts it is.

    ``messages`` has role and pieces of each message, and ``experiences`` id and text of those in it, in order.

    Args:
        group: the group.
        texts: of the experiences of the library, by id.
    """
    views = []
    for half in group.by_prompt():
        first = half.rollouts[0]
        experiences = [(name, texts.get(name, "")) for name in first.experience_ids]
        messages = [(str(message.role), marked(message.content, experiences)) for message in group.prompt_of(first)]
        views.append({"half": first.prompt_half or "", "messages": messages, "experiences": experiences})
    return views


def marked(text: str, experiences: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """A text in pieces, each with the id of the experience that it is, or an empty one, in the order of the text.

    The lines of a case are indented in a prompt.
    """
    pieces, end = [], 0
    for name, content in experiences:
        shown = do_indent(content, 2)
        start = text.find(shown, end) if shown else -1
        if start >= 0:
            pieces += [(text[end:start], ""), (shown, name)]
            end = start + len(shown)
    pieces.append((text[end:], ""))
    return [piece for piece in pieces if piece[0]]
