"""Experiences, what was measured of them, and changes to a library."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from engine.records.record import Record, left_out

ExperienceKind = Literal["lesson", "case"]


class Uses(Record):
    """The number of rollouts whose prompt held an experience, and how many of them were correct."""

    rollouts: int = 0
    correct: int = 0


class Evidence(Record):
    """The group that an experience was learned from; ``problem_text`` is the beginning of the text of its problem."""

    problem_id: str
    problem_text: str = left_out("")
    epoch: int = 0
    mean: float | None = None
    std: float | None = None


class TrialFigures(Record):
    """What was measured of an experience.

    Args:
        differences: groups that it was measured in.
        sum: of the differences (share of right answers with it minus without it), each times the likeness of the
            problem to those that it was learned from.
        squares: the sum of the squared differences.
        weight: the sum of the squared likenesses; None: all are 1.
        mean: the effect on problems like those that it was learned from, ``sum / weight``.
        p_helps: the probability that it helps.
    """

    differences: int = Field(0, ge=0, le=1_000_000_000)
    sum: float = Field(0.0, ge=-1e12, le=1e12)
    squares: float = Field(0.0, ge=0, le=1e12)
    weight: float | None = left_out()
    mean: float | None = None
    p_helps: float | None = None

    @model_validator(mode="after")
    def _of_differences(self) -> Self:
        """Likenesses from 0 to 1 have no other weight, and by Cauchy-Schwarz no numbers have a larger sum."""
        weight, rounding = self.differences if self.weight is None else self.weight, 1e-5
        is_weight = 0 <= weight <= self.differences + rounding
        if not is_weight or self.sum**2 > (weight + rounding) * (self.squares + rounding):
            raise ValueError("sum, squares and weight are not those of so many differences")
        return self


class Experience(Record):
    """One experience of a library. ``status`` is ``active``, ``pinned`` or ``deleted``.

    A ``lesson`` is a sentence of at most 32 words. A ``case`` is a solved problem, shortened.
    """

    id: str
    content: str
    kind: ExperienceKind = left_out("lesson")
    category: str = ""
    source_problem: str = ""
    created_at: str = ""
    status: Literal["active", "pinned", "deleted"] = "active"
    evidence: list[Evidence] = Field(default_factory=list)
    uses: Uses = Uses()
    trial: TrialFigures | None = left_out()


class Operation(Record):
    """A change of a library.

    An analyst proposes ``add`` (content, category; ``sources``: further problems that the lesson was learned from), and
    each solved problem is one (kind ``case``). A trial decides on ``retire`` (id), and a person on ``pin``, ``unpin``,
    ``forbid`` and ``remove`` (id).
    """

    op: str
    id: str | None = None
    content: str | None = None
    kind: ExperienceKind = left_out("lesson")
    category: str = ""
    sources: list[str] = left_out(list)
