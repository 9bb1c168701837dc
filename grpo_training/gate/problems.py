"""Which problems a gate asks, and in which order."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

from engine.errors import InputError
from engine.records import Problem
from engine.statistics.group_sequential import LOOKS
from grpo_training.runs.problems import without_duplicates

FEW = 100
"""Below so many problems of a test each is answered more often."""
_HOLD_OUT_FROM = 250
"""Below so many problems none is held out. On a third of 250 a test finds a gain of 15 points in four of five cases,
where differences spread as in Banking77 (0.43 of four answers each way); on fewer, only larger ones."""
_PARTS = 3
"""One part of so many is held out."""
_MOST_HELD_OUT = 400
"""With half as many problems and four answers each way, a gain of 5 points is found in two of three cases."""


def split(problems: Sequence[Problem], where: str) -> tuple[list[Problem], list[Problem]]:
    """The problems to learn from, and those of the gate after it.

    Below :data:`_HOLD_OUT_FROM` problems both are all of them: each is asked without the experiences that were learned
    from it. Else a third is held out, by a hash of the id, so that further problems do not move any; of this third at
    most 400 are asked. Of problems with the same text the first one is used.

    Raises:
        InputError: there are too few.
    """
    problems = without_duplicates(problems)
    check_number(problems, where)
    if len(problems) < _HOLD_OUT_FROM:
        return problems, list(problems)
    held_out = [problem for problem in problems if _part(problem.id) == 0]
    return [problem for problem in problems if _part(problem.id) != 0], drawn(held_out, _MOST_HELD_OUT)


def drawn(problems: Sequence[Problem], most: int | None) -> list[Problem]:
    """At most so many of the problems, by a hash of the id, in their order; None: all of them."""
    if most is None or len(problems) <= most:
        return list(problems)
    chosen = {problem.id for problem in sorted(problems, key=lambda problem: _hash(problem.id))[:most]}
    return [problem for problem in problems if problem.id in chosen]


def shuffled(problems: Sequence[Problem], seed: int) -> list[Problem]:
    """The problems in the order in which a gate asks them."""
    order = list(problems)
    random.Random(f"{seed}:gate").shuffle(order)  # noqa: S311 - not for cryptography
    return order


def check_number(problems: Sequence[Problem], where: str) -> None:
    """Raise ``InputError`` if there are fewer problems than a gate needs."""
    if len(problems) < 2 * LOOKS:
        raise InputError(
            f"The test of a library needs at least {2 * LOOKS} problems, and {where} has {len(problems)} different "
            "ones",
            fix="Give more problems. With 40 problems a gain of 10 points is found in about 4 of 5 cases.",
        )


def _part(problem_id: str) -> int:
    return int(_hash(problem_id)[:8], 16) % _PARTS


def _hash(problem_id: str) -> str:
    return hashlib.sha256(problem_id.encode()).hexdigest()
