"""Judges replies of the pocket model."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.experience.text_checks import check_text
from engine.records import Completion
from engine.tasks.registry import task_named
from examples.pocket_model.corpus import Conversation
from examples.pocket_model.quickstart import FAMILIES
from examples.pocket_model.quickstart.families import ProblemFamily


@dataclass(frozen=True)
class Judged:
    """Whether a reply to a conversation is valid JSON, and whether it is right."""

    conversation: Conversation
    is_json: bool
    right: bool


def judge(conversation: Conversation, reply: str) -> Judged:
    """Judge a reply: a scaffold by the problem's task, the analyst's operations by the family's lessons."""
    try:
        value = json.loads(reply)
    except ValueError:
        return Judged(conversation, False, False)
    if conversation.role == "analyst":
        operations = value.get("operations") if isinstance(value, dict) else None
        if not isinstance(operations, list) or not all(isinstance(item, dict) for item in operations):
            return Judged(conversation, False, False)
        return Judged(conversation, True, _lesson_is_right(conversation, operations))
    problem = conversation.instance.problem
    task = task_named(problem.task)
    candidate = task.parse(Completion(text=reply), problem)
    is_right = bool(task.evaluate(candidate, problem).is_correct)
    return Judged(conversation, candidate.content is not None, is_right)


def _lesson_is_right(conversation: Conversation, operations: list[dict[str, Any]]) -> bool:
    """Whether the operations are right for the group and the library: one valid lesson of the family, or none."""
    expected = json.loads(conversation.reply)["operations"]
    if not expected or conversation.has_lesson:
        return not operations or operations[0].get("op") == "modify"
    if len(operations) != 1 or operations[0].get("op") != "add":
        return False
    content = str(operations[0].get("content"))
    instance = conversation.instance
    return family_of(content) is instance.family and check_text(content, instance.problem) is None


def family_of(lesson: str) -> ProblemFamily:
    """The family with the lesson that is most similar to a text (Jaccard index of their words)."""
    words = set(lesson.lower().split())

    def similarity(family: ProblemFamily) -> float:
        return max(len(words & other) / len(words | other) for other in map(_words, family.lessons))

    return max(FAMILIES.values(), key=similarity)


def _words(text: str) -> set[str]:
    return set(text.lower().split())


def majority_is_right(conversation: Conversation) -> bool:
    """Whether more than half of a critic's proposals are right."""
    text = conversation.messages[-1].content
    right, mistaken = (
        text.count(f'"chosen_strategy":"{conversation.instance.scaffold(is_right).chosen_strategy}"')
        for is_right in (True, False)
    )
    return right > mistaken


def rate(values: Iterable[bool]) -> float:
    """The share of true values, rounded to three digits."""
    listed = list(values)
    return round(sum(listed) / len(listed), 3)
