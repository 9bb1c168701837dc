"""The lot: in which of a group's two prompts, A and B, each experience on trial stands, and what the group measures."""

import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from engine.records import Experience, Half

HALVES: tuple[Half, Half] = ("A", "B")


def half_of(seed: int, role: str, epoch: int, problem_id: str, experience_id: str) -> Half:
    """The prompt in which an experience stands, by lot: the same arguments give the same half.

    Args:
        seed: of the run.
        role: whose library it is.
        epoch, problem_id: of the group.
        experience_id: of the experience, or the name of what else is drawn for this group.
    """
    key = "\0".join((str(seed), role, str(epoch), problem_id, experience_id))
    return HALVES[hashlib.sha256(key.encode()).digest()[0] & 1]


def drawn_halves(
    seed: int, role: str, epoch: int, problem_id: str, experiences: Iterable[Experience], *, knows_cases: bool = False
) -> dict[str, Half]:
    """The prompt of each experience that is on trial. The others stand in both prompts.

    These are pinned ones and, for three of four problems, cases that are known to help: lessons are measured beside
    them, as they are used.

    Args:
        seed, role, epoch, problem_id: as for :func:`half_of`.
        experiences: that match the problem.
        knows_cases: whether cases are known to help.
    """
    half = functools.partial(half_of, seed, role, epoch, problem_id)
    has_cases_in_both = knows_cases and "A" in (half("first of two"), half("second of two"))
    return {
        experience.id: half("cases" if experience.kind == "case" else experience.id)
        for experience in experiences
        if experience.status != "pinned" and not (experience.kind == "case" and has_cases_in_both)
    }


def in_half(half: Half, experiences: Iterable[Experience], halves: Mapping[str, Half]) -> list[Experience]:
    """The experiences of one of the two prompts, in their order."""
    return [experience for experience in experiences if halves.get(experience.id, half) == half]


def half_of_rollout(index: int) -> Half:
    """The prompt that a rollout of a group answers: A and B in turn, so that three rollouts are two and one."""
    return HALVES[index % 2]


def difference(halves: Sequence[Half], scores: Sequence[float]) -> float | None:
    """Mean score of A minus mean score of B; None if one of the halves is empty.

    Args:
        halves: of the rollouts of a group.
        scores: 1 for right and 0 for wrong, or the total rewards of a task without right answers.
    """
    sides = {side: [score for half, score in zip(halves, scores, strict=True) if half == side] for side in HALVES}
    return fmean(sides["A"]) - fmean(sides["B"]) if sides["A"] and sides["B"] else None
