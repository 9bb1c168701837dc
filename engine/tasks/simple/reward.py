"""Calls the functions of a user's task, which may fail, wait, or return anything."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine.records import AnswerSource, Outcome
from engine.task import Measurement

Reward = Callable[[str, Mapping[str, Any]], Any]
"""Scores an answer, given the dataset row: a function, or a coroutine function, that returns a number in [0, 1], or
numbers by component name; or a pair of this and a text, or such a mapping with the text as ``feedback``. The analyst
reads the text beside the answer: what was wrong with it."""

_FEEDBACK = "feedback"
_OWN_FOLDER = Path(__file__).parent
_SHOWN_FEEDBACK = 1000
"""Characters of a feedback that the analyst reads."""

_ROUNDING = 1e-9
"""A reward may be outside of [0, 1] by this much, as sums of floats are."""


def measure(reward: Reward, answer: str, row: Mapping[str, Any]) -> Measurement:
    """Call a reward function. A number becomes the component ``r_ans``, and a feedback a remark."""
    try:
        value = reward(answer, row)
        if inspect.iscoroutine(value):
            value = asyncio.run_coroutine_threadsafe(value, _loop()).result()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the reward function is the user's own code
        return fault(f"the reward function raised {raised(error)}", answer)
    feedback = None
    if isinstance(value, tuple) and len(value) == 2:
        value, feedback = value
    scores = dict(value) if isinstance(value, Mapping) else {"r_ans": value}
    feedback = scores.pop(_FEEDBACK, feedback)
    components: dict[str, float] = {}
    for name, number in scores.items():
        try:
            score = float(number)
        except (TypeError, ValueError):
            score = math.nan
        components[str(name)] = min(max(score, 0.0), 1.0)
        if not math.isclose(score, components[str(name)], abs_tol=_ROUNDING):
            shown = f"{name} = {number!r}"[:80] if isinstance(value, Mapping) else repr(value)[:80]
            return fault(f"the reward function returned {shown}; expected numbers from 0 to 1", answer)
    if not components:
        return fault("the reward function returned nothing; expected numbers from 0 to 1", answer)
    is_correct = all(math.isclose(number, 1) for number in components.values())
    remarks = [str(feedback)[:_SHOWN_FEEDBACK]] if feedback else []
    return Measurement(components, is_correct, answer, "stated", remarks=remarks)


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """An event loop in a thread of its own, which all coroutines of reward functions share, as their clients do."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="rewards", daemon=True).start()
    return loop


def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of the user returns.

    Raises:
        TypeError: it is asynchronous; also what the function raises.
    """
    value = function(*arguments)
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("it is asynchronous; write a normal function (def)")
    return value


def raised(error: BaseException) -> str:
    """An exception of a function of the user, with the last line of the function's file that it came through."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).parent != _OWN_FOLDER and "concurrent" not in frame.filename
    ]
    file_frames = [frame for frame in frames if frame.filename == frames[0].filename]
    location = f" ({Path(file_frames[-1].filename).name}, line {file_frames[-1].lineno})" if file_frames else ""
    return f"{type(error).__name__}: {error}"[:250] + location


def fault(why: str, answer: str | None) -> Measurement:
    """A measurement that says why nothing could be measured."""
    source: AnswerSource = "none" if answer is None else "stated"
    return Measurement({}, None, answer, source, Outcome.INFRA_FAULT, detail={"why": why[:300]})
