"""A reward function for online training in place of the task's: ``--reward file.py:function``."""

from __future__ import annotations

import inspect

from engine.errors import InputError
from engine.plugins import load_object, source_digest
from engine.tasks.simple import RewardTask


def load_reward(place: str) -> RewardTask:
    """A task that scores completions by a reward function.

    Args:
        place: ``path/to/file.py:function`` or ``package.module:function``. The function is called with the answer of
            a completion and the row of its problem; see :data:`engine.tasks.simple.Reward`.

    Raises:
        MissingInputError: there is no such file.
        InputError: there is no such module or function, or it does not take an answer and a row.
    """
    function = load_object(place)
    try:
        inspect.signature(function).bind("answer", {})
    except (TypeError, ValueError) as error:  # not a function, or one with other arguments
        raise InputError(
            f"--reward {place} cannot be called with an answer and a row",
            why=str(error),
            fix="Define it as: def reward(answer: str, row: dict) -> float",
        ) from None
    if inspect.iscoroutinefunction(function):
        raise InputError(f"--reward {place} is async", fix="Use a normal function; it is called from threads.")
    return RewardTask(function)


def reward_digest(place: str) -> str:
    """A digest of the source file of a reward function, which identifies a run."""
    return source_digest([load_object(place)]) or place
