"""Renders the prompts of stored rollouts: a cache has the hash of a prompt and the library version, not its text.

A prompt is rendered by the same templates, with the experiences that the log of the library has for the recorded
version. Experiences that are not found are reported, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agents.generator import generator_messages, prompt_hash
from engine.errors import InputError
from engine.experience.library import ExperienceLibrary, library_prefix
from engine.records import Experience, Message, RolloutGroup
from engine.task import Task
from engine.tasks.registry import task_named
from grpo_training.runs.learner_files import library_file
from grpo_training.runs.stored_answers import problem_of
from prompts import prompt_styles

STRIPPED = "groups: trained without the experiences of their prompt, so off-policy: stored log-probs are not used"
OTHER_PROMPT = "groups: their prompt differs from that of the templates, so off-policy: stored log-probs are not used"
UNKNOWN_PROMPT = "groups: the hash of their prompt is not recorded: stored log-probs are not used"


class PromptNotFoundError(LookupError):
    """The prompt that was sent cannot be told; the message says why."""


class ExperiencesNotFoundError(PromptNotFoundError):
    """The experiences of a prompt are in no readable library; the message says why."""


@dataclass(frozen=True)
class StoredPrompt:
    """A rendered prompt. ``difference`` is empty if it is exactly the prompt that was sent."""

    messages: tuple[Message, ...]
    difference: str = ""


class StoredPrompts:
    """Renders the prompts of stored groups.

    Args:
        style: the prompt style. None: the one in which each prompt was sent; for records without the hash of their
            prompt, ``full``.
        experiences_dir: folder of the libraries and their logs.
        libraries: those that are open already, by the name of their generator.
    """

    def __init__(
        self, style: str | None, experiences_dir: Path, libraries: Mapping[str, ExperienceLibrary] | None = None
    ) -> None:
        self._style, self._experiences_dir = style, experiences_dir
        self._libraries = dict(libraries or {})
        self._unknown_hashes: set[tuple[str, str]] = set()
        self._styles: dict[tuple[str, str], str | None] = {}

    def render(self, group: RolloutGroup, *, with_experiences: bool) -> StoredPrompt:
        """The prompt of a group.

        Args:
            group: a group of a cache.
            with_experiences: with the experiences that it was sent with, else with none.

        Raises:
            ExperiencesNotFoundError: the experiences cannot be found.
            PromptNotFoundError: no style is given, and the templates have changed since the prompt was sent.
            InputError: the group's task is not known, or its problem is not one of that task.
        """
        task = task_named(group.task)
        style = self._style or self._sent_style(group, task)
        experiences = self.experiences(group) if with_experiences else ()
        messages = generator_messages(task, problem_of(group), experiences, style)
        return StoredPrompt(messages, self._difference(group, task, style, with_experiences))

    def advice(self) -> list[str]:
        """Advice on prompts that differ: the style that they were sent in, if it is known."""
        styles = {
            hash_asked: style
            for hash_asked, name in sorted(self._unknown_hashes)
            if (style := _style_with_hash(task_named(name), hash_asked))
        }
        known = [f"Prompts were sent in the style {style!r}: leave out --prompts." for style in set(styles.values())]
        unknown = [one for one, _ in sorted(self._unknown_hashes) if one not in styles]
        return known + [f"No prompt style has the hash {one}: the templates have changed since." for one in unknown]

    def _sent_style(self, group: RolloutGroup, task: Task) -> str:
        asked = group.policy.prompt_hash if group.policy else ""
        if not asked:
            return "full"
        key = (asked, group.task)
        if key not in self._styles:
            self._styles[key] = _style_with_hash(task, asked)
        style = self._styles[key]
        if style is None:
            raise PromptNotFoundError(
                f"no prompt style has the hash {asked}: the templates have changed since; --prompts names one"
            )
        return style

    def _difference(self, group: RolloutGroup, task: Task, style: str, with_experiences: bool) -> str:
        asked = group.policy.prompt_hash if group.policy else ""
        if not asked:
            return UNKNOWN_PROMPT
        if asked != prompt_hash(task, style):
            self._unknown_hashes.add((asked, group.task))
            return OTHER_PROMPT
        return STRIPPED if group.rollouts[0].experience_ids and not with_experiences else ""

    def experiences(self, group: RolloutGroup) -> tuple[Experience, ...]:
        """The experiences of a prompt, in the order in which they stand in it.

        Raises:
            ExperiencesNotFoundError: they cannot be found.
        """
        ids = group.rollouts[0].experience_ids
        if not ids:
            return ()
        version = group.policy.library_version if group.policy else ""
        if not version:
            raise ExperiencesNotFoundError("the version of their library is not recorded")
        try:
            found = self._library(group.generator_id).at_version(version).texts
        except InputError as error:
            raise ExperiencesNotFoundError(error.what) from None
        by_id = {one.id: one for one in found}
        if not by_id.keys() >= set(ids):
            raise ExperiencesNotFoundError(
                f"version {version} of {group.generator_id} has other experiences than the group names"
            )
        return tuple(by_id[one] for one in ids)  # a prompt may have a selection of the library

    def _library(self, name: str) -> ExperienceLibrary:
        if name not in self._libraries:
            library_prefix(name)  # refuses a name that is a path
            self._libraries[name] = ExperienceLibrary(library_file(self._experiences_dir, name), read_only=True)
        return self._libraries[name]


def _style_with_hash(task: Task, asked: str) -> str | None:
    return next((style for style in prompt_styles() if prompt_hash(task, style) == asked), None)
