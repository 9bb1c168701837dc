"""The prompts of a group, rendered again, with their experiences marked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import InputError, TemplateError
from engine.records import RolloutGroup
from grpo_training.runs.stored_prompts import PromptNotFoundError, StoredPrompts


@dataclass(frozen=True)
class Segment:
    """A piece of a prompt; ``experience`` is the id of the experience that it is, or empty."""

    text: str
    experience: str = ""


@dataclass(frozen=True)
class PromptView:
    """A prompt of a group, rendered again from its templates and the library of that time.

    Args:
        half: which of the two prompts of the group it is; empty if it has one.
        messages: role and pieces of each message.
        experiences: id and text of the experiences in it, in order.
        why: why it is not shown; empty if it is exactly what was sent.
    """

    half: str
    messages: list[tuple[str, list[Segment]]] = field(default_factory=list)
    experiences: list[tuple[str, str]] = field(default_factory=list)
    why: str = ""


def prompts_of(group: RolloutGroup, folder: Path | None) -> list[PromptView]:
    """The prompts of a group, with the experiences of the library in a folder; None: no library was found."""
    prompts = StoredPrompts(None, folder or Path())
    return [_prompt_of(half, prompts, folder) for half in group.by_prompt()]


def _prompt_of(group: RolloutGroup, prompts: StoredPrompts, folder: Path | None) -> PromptView:
    first = group.rollouts[0]
    half = first.prompt_half or ""
    if first.experience_ids and folder is None:
        return PromptView(half, why="no library of this generator was found")
    try:
        experiences = [(experience.id, experience.content) for experience in prompts.experiences(group)]
        stored = prompts.render(group, with_experiences=True)
    except (PromptNotFoundError, InputError, TemplateError, OSError) as error:
        return PromptView(half, why=str(error))
    if stored.difference:
        return PromptView(half, why="the file does not say which templates were used")
    messages = [(str(message.role), marked(message.content, experiences)) for message in stored.messages]
    return PromptView(half, messages, experiences)


def marked(text: str, experiences: Iterable[tuple[str, str]]) -> list[Segment]:
    """A text in pieces, of which those that are an experience have its id. Experiences stand in their order."""
    pieces, place = [], 0
    for name, content in experiences:
        start = text.find(content, place) if content else -1
        if start >= 0:
            pieces += [Segment(text[place:start]), Segment(content, name)]
            place = start + len(content)
    pieces.append(Segment(text[place:]))
    return [piece for piece in pieces if piece.text]
