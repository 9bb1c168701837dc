"""How a function becomes a program, and what it returns."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_NAMES = "_prompts_of_program"
_USUAL = ("answer",)
SHOWN_CALLS, SHOWN_PROMPT, SHOWN_REPLY = 30, 1500, 3000
"""Calls of a run that are stored, and characters of each."""


def program(*, prompts: Sequence[str]) -> Callable[[FunctionT], FunctionT]:
    """Declare the prompts of a program; a decorator.

    Args:
        prompts: names of its prompts, such as ``("plan", "answer")``. The program gets a mapping from each of them to a
            text, which it puts into that prompt.
    """

    def declare(function: FunctionT) -> FunctionT:
        setattr(function, _NAMES, tuple(prompts))
        return function

    return declare


def prompts_of(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """The names of the prompts of a program; None if the function is no program: it has no parameter ``client``."""
    declared = getattr(function, _NAMES, None)
    if declared is None and "client" in inspect.signature(function).parameters:
        return _USUAL
    return declared


@dataclass(frozen=True)
class Call:
    """One call of a program.

    Args:
        prompt: the end of what was asked.
        reply: the text, or the calls of tools, of the model.
    """

    prompt: str
    reply: str


@dataclass(frozen=True)
class Run:
    """What a program has returned for a problem: the text of a completion.

    Args:
        answer: its answer; None if it returned none.
        score: in [0, 1], if it returned a pair.
        feedback: the other part of the pair.
        calls: what it asked.
    """

    answer: str | None
    score: float | None = None
    feedback: str = ""
    calls: Sequence[Call] = field(default_factory=tuple)

    @classmethod
    def of(cls, returned: Any, calls: Sequence[Call]) -> Run:
        """The run of a program that has returned a value.

        Raises:
            ValueError: a score is no number in [0, 1].
        """
        if isinstance(returned, tuple) and len(returned) == 2:
            score = float(returned[0])
            if not (math.isfinite(score) and 0 <= score <= 1):
                raise ValueError(f"the score is {returned[0]!r}; expected a number from 0 to 1")
            return cls(calls[-1].reply if calls else None, score, str(returned[1]), calls)
        return cls(None if returned is None else str(returned), calls=calls)

    @classmethod
    def read(cls, text: str) -> Run | None:
        """The run that a completion states; None if it is of another program."""
        try:
            values = json.loads(text)
            calls = tuple(Call(**call) for call in values.pop("calls"))
            return cls(**values, calls=calls)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    def text(self) -> str:
        """The text of a completion."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def shown(self) -> str:
        """The calls and the answer, for the analyst and for people."""
        calls = [f"Call {number}: {call.prompt}\nReply: {call.reply}" for number, call in enumerate(self.calls, 1)]
        return "\n\n".join([*calls, f"Returned: {self.answer if self.score is None else self.score}"])
