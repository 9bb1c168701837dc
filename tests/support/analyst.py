"""What servers of the tests know of the analyst: its requests, and the form of its reply."""

from collections.abc import Mapping
from typing import Any

_ASKED_FOR_A_LESSON = ("you write one rule for other problems", "为同类其他问题写一条规则", "Study the attempts, all")
"""Of the analyst's instructions: English, Chinese, and those of the pocket model."""


def for_analyst(body: Mapping[str, Any]) -> bool:
    """Whether a chat request asks for a lesson."""
    return any(phrase in str(body["messages"][0]["content"]) for phrase in _ASKED_FOR_A_LESSON)


def with_lesson(lesson):
    """A reply with a lesson."""
    return f"One decision made the difference.\nLesson: {lesson}"


NO_LESSON = "The attempts are alike.\nLesson: none"
