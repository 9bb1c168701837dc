"""Prompts for games as problems: rows of ``prompt_seeds``, ``prompts_train`` and ``prompts_eval``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from engine.errors import InputError
from engine.records import Problem, first_fault

Difficulty = Literal["easy", "medium", "hard"]

_MAX_ITEMS, _MAX_CHARS = 64, 4000
_LISTS = ("modules", "constraints", "must_use_apis", "eval_hints", "tags")
"""Fields of a row that may be null."""


class GameFacts(BaseModel):
    """What a game must be, besides the text of the task; the ``answer`` of a problem.

    Args:
        difficulty: an unknown one counts as medium.
        modules: parts of Phaser.
        constraints: requirements as sentences.
        must_use_apis: symbols that the program must use.
        eval_hints: what a person should look for; nothing is checked by it.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    difficulty: Difficulty = "medium"
    modules: tuple[str, ...] = Field(default=(), max_length=_MAX_ITEMS)
    constraints: tuple[str, ...] = Field(default=(), max_length=_MAX_ITEMS)
    must_use_apis: tuple[str, ...] = Field(default=(), max_length=_MAX_ITEMS)
    eval_hints: tuple[str, ...] = Field(default=(), max_length=_MAX_ITEMS)

    @field_validator("difficulty", mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        return value if value in ("easy", "medium", "hard") else "medium"

    @field_validator(*_LISTS, mode="before", check_fields=False)
    @classmethod
    def _texts(cls, value: Any) -> Any:
        return () if value is None else value


class PromptRow(GameFacts):
    """A row of a file of prompts."""

    id: str = ""
    task: str = Field(min_length=1, max_length=_MAX_CHARS)
    tags: tuple[str, ...] = ()


def read_prompt(row: Mapping[str, Any], where: str) -> PromptRow:
    """Check a row.

    Raises:
        InputError: a field is missing or of another type; the message names ``where``.
    """
    try:
        return PromptRow.model_validate(row)
    except ValidationError as error:
        raise InputError(
            f"{where}: {first_fault(error)}",
            fix='Each row needs "id" and "task"; "must_use_apis", "constraints" and the others are lists of texts.',
        ) from None


def problem_of(row: PromptRow, task: str) -> Problem:
    """The problem of a row."""
    facts = GameFacts(**{name: getattr(row, name) for name in GameFacts.model_fields})
    meta = {"difficulty": row.difficulty, "modules": list(row.modules), "tags": list(row.tags)}
    return Problem(id=row.id, text=row.task, answer=facts.model_dump_json(), task=task, meta=meta)


@lru_cache(maxsize=4096)
def facts_of(answer: str) -> GameFacts:
    """The facts in the ``answer`` of a problem."""
    return GameFacts.model_validate_json(answer)
