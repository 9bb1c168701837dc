"""The prompt of a stored rollout, rendered again: a cache keeps its hash and its lessons' version, not its text.

Whoever trains on a reply needs the prompt that it answered. It is made again by the templates that made it first, with
the lessons that the library's log holds for the recorded version. What cannot be found is said, never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agents.generator import generator_messages, prompt_hash
from engine.errors import InputError
from engine.experience.library import ExperienceLibrary, library_prefix
from engine.records import Problem
from engine.task import task_named
from prompts import prompt_styles

if TYPE_CHECKING:
    from pathlib import Path

    from engine.records import Experience, Message, RolloutGroup
    from engine.task import Task

STRIPPED = "groups: trained without the lessons they were asked with, so off-policy: stored log-probs are not used"
OTHER_WORDS = "groups: asked in other words than today's templates give, so off-policy: stored log-probs are not used"
UNKNOWN_WORDS = "groups: the words they were asked in are not recorded: stored log-probs are not used"


class LessonsNotFoundError(LookupError):
    """The lessons of a group's prompt are in no library that can be read; the text says why."""


@dataclass(frozen=True)
class StoredPrompt:
    """A prompt that was rendered again. ``difference`` is empty where it is the very prompt that was asked."""

    messages: tuple[Message, ...]
    difference: str = ""


class StoredPrompts:
    """Renders the prompts of stored groups.

    Args:
        style: the prompt style to render in.
        experiences_dir: where the libraries and their logs are.
    """

    def __init__(self, style: str, experiences_dir: Path) -> None:
        self._style, self._experiences_dir = style, experiences_dir
        self._libraries: dict[str, ExperienceLibrary] = {}
        self._strange: set[tuple[str, str]] = set()

    def render(self, group: RolloutGroup, *, with_lessons: bool) -> StoredPrompt:
        """The prompt of a group.

        Args:
            group: a line of a cache.
            with_lessons: with those that it was asked with, else with none.

        Raises:
            LessonsNotFoundError: they cannot be found.
            InputError: the group's task is not known, or its problem is not one of that task.
        """
        task = task_named(group.task)
        lessons = self._lessons(group) if with_lessons else ()
        problem = Problem(id=group.problem_id, text=group.problem_text, answer=group.ground_truth, task=group.task)
        messages = generator_messages(task, problem, lessons, self._style)
        return StoredPrompt(messages, self._difference(group, task, with_lessons))

    def advice(self) -> list[str]:
        """What a person can do about prompts in other words: the style that they were asked in, where it is known."""
        styles = {
            hash_asked: style
            for hash_asked, name in sorted(self._strange)
            for style in prompt_styles()
            if prompt_hash(task_named(name), style) == hash_asked
        }
        known = [f"Prompts were asked in the style {style!r}: say --prompts {style}." for style in set(styles.values())]
        unknown = [one for one, _ in sorted(self._strange) if one not in styles]
        return known + [f"No prompt style of today has the hash {one}: the templates were changed." for one in unknown]

    def _difference(self, group: RolloutGroup, task: Task, with_lessons: bool) -> str:
        asked = group.policy.prompt_hash if group.policy else ""
        if not asked:
            return UNKNOWN_WORDS
        if asked != prompt_hash(task, self._style):
            self._strange.add((asked, group.task))
            return OTHER_WORDS
        return STRIPPED if group.rollouts[0].experience_ids and not with_lessons else ""

    def _lessons(self, group: RolloutGroup) -> tuple[Experience, ...]:
        ids = group.rollouts[0].experience_ids
        if not ids:
            return ()
        version = group.policy.library_version if group.policy else ""
        if not version:
            raise LessonsNotFoundError("the version of their library is not recorded")
        try:
            found = self._library(group.generator_id).at_version(version).texts
        except InputError as error:
            raise LessonsNotFoundError(error.what) from None
        if [one.id for one in found] != ids:
            raise LessonsNotFoundError(f"version {version} of {group.generator_id} holds other lessons than are named")
        return found

    def _library(self, name: str) -> ExperienceLibrary:
        if name not in self._libraries:
            prefix = library_prefix(name)  # also refuses a name that could lead to another folder
            path = self._experiences_dir / f"{name}_experiences.json"
            self._libraries[name] = ExperienceLibrary(path, prefix, read_only=True)
        return self._libraries[name]
