"""The prompt of a group, rendered again, with its experiences marked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from agents.generator import prompt_hash
from engine.errors import InputError, TemplateError
from engine.experience.library import ExperienceLibrary
from engine.records import RolloutGroup
from engine.tasks.registry import task_named
from grpo_training.runs.stored_prompts import ExperiencesNotFoundError, StoredPrompts
from grpo_training.view.data.libraries import Library
from prompts import prompt_styles


@dataclass(frozen=True)
class Segment:
    """A piece of a prompt; ``experience`` is the id of the experience that it is, or empty."""

    text: str
    experience: str = ""


@dataclass(frozen=True)
class PromptView:
    """The prompt of a group, rendered again from its templates and the library of that time.

    Args:
        messages: role and pieces of each message.
        experiences: id and text of the experiences in it, in order.
        why: why it is not shown, ``prompt.why.WHY`` in the catalogues; empty if it is exactly what was sent.
        remark: more about that, or empty.
    """

    messages: list[tuple[str, list[Segment]]] = field(default_factory=list)
    experiences: list[tuple[str, str]] = field(default_factory=list)
    why: str = ""
    remark: str = ""


def prompt_of(
    group: RolloutGroup, libraries: Iterable[Library], open_library: Callable[[Library], ExperienceLibrary]
) -> PromptView:
    """The prompt of a group, with the experiences from the first library that has them."""
    try:
        task = task_named(group.task)
        asked = group.policy.prompt_hash if group.policy else ""
        style = next((name for name in prompt_styles() if prompt_hash(task, name) == asked), None)
    except (InputError, TemplateError) as error:
        return PromptView(why="unreadable", remark=error.what)
    if style is None:
        return PromptView(why="templates_changed" if asked else "no_templates")
    found = PromptView(why="no_library")
    for library in libraries if group.rollouts[0].experience_ids else [None]:
        try:
            opened = {} if library is None else {group.generator_id: open_library(library)}
            return _rendered(group, StoredPrompts(style, Path() if library is None else library.path.parent, opened))
        except (ExperiencesNotFoundError, InputError, TemplateError, OSError) as error:
            found = PromptView(why="unreadable", remark=str(error))
    return found


def marked(text: str, experiences: Iterable[tuple[str, str]]) -> list[Segment]:
    """A text in pieces, of which those that are an experience have its id. Experiences stand in their order."""
    pieces, place = [], 0
    for name, content in experiences:
        found = text.find(content, place) if content else -1
        if found >= 0:
            pieces += [Segment(text[place:found]), Segment(content, name)]
            place = found + len(content)
    pieces.append(Segment(text[place:]))
    return [piece for piece in pieces if piece.text]


def _rendered(group: RolloutGroup, prompts: StoredPrompts) -> PromptView:
    experiences = [(one.id, one.content) for one in prompts.experiences(group)]
    stored = prompts.render(group, with_experiences=True)
    messages = [(str(message.role), marked(message.content, experiences)) for message in stored.messages]
    return PromptView(messages, experiences)
