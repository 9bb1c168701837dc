"""The prompts of a group, rendered again, with their experiences marked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from engine.errors import InputError, TemplateError
from engine.records import RolloutGroup
from grpo_training.runs.stored_prompts import PromptNotFoundError, StoredPrompts
from grpo_training.view.pages.rollout_view import View


def prompts_of(group: RolloutGroup, folder: Path | None) -> list[View]:
    """The prompts of a group, rendered again from their templates and the library of that time.

    ``half`` says which of the two prompts of the group it is, and ``why`` why it is not shown; empty if ``messages`` is
    exactly what was sent: role and pieces of each message. ``experiences`` has id and text of those in it, in order.

    Args:
        group: the group.
        folder: of the library; None: no library was found.
    """
    prompts = StoredPrompts(None, folder or Path())
    return [_prompt_of(half, prompts, folder) for half in group.by_prompt()]


def _prompt_of(group: RolloutGroup, prompts: StoredPrompts, folder: Path | None) -> View:
    first = group.rollouts[0]
    view: View = {"half": first.prompt_half or "", "messages": [], "experiences": [], "why": ""}
    if first.experience_ids and folder is None:
        return view | {"why": "no library of this generator was found"}
    if group.policy is None or not group.policy.prompt_hash:
        return view | {"why": "the file does not say which templates were used"}
    try:
        experiences = [(experience.id, experience.content) for experience in prompts.experiences(group)]
        stored = prompts.render(group, with_experiences=True)
    except (PromptNotFoundError, InputError, TemplateError, OSError) as error:
        return view | {"why": str(error)}
    messages = [(str(message.role), marked(message.content, experiences)) for message in stored.messages]
    return view | {"messages": messages, "experiences": experiences}


def marked(text: str, experiences: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """A text in pieces, each with the id of the experience that it is, or an empty one, in the order of the text."""
    pieces, place = [], 0
    for name, content in experiences:
        start = text.find(content, place) if content else -1
        if start >= 0:
            pieces += [(text[place:start], ""), (content, name)]
            place = start + len(content)
    pieces.append((text[place:], ""))
    return [piece for piece in pieces if piece[0]]
