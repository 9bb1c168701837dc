"""A reward for online training in place of the task's: ``--reward file.py:function``, or the name of a task.

A function scores one answer, ``f(answer, row)``, or a batch of completions as a reward function of TRL does,
``f(completions, **columns)`` or ``f(prompts, completions, **columns)``. Which of the two it is, its parameters say.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.errors import InputError
from engine.reading.plugins import load_object, source_digest
from engine.task import Task
from engine.tasks.registry import task_named
from engine.tasks.simple import RewardTask
from grpo_training.train.data.scored_files import reward_number

OF_TRAINER = ("trainer_state", "log_extra", "log_metric")
"""What TRL's trainer passes to a reward function beside the columns of the rows."""
_COMPLETIONS = ("completions", "outputs")
_OF_TRL = frozenset({"prompts", "completion_ids", *OF_TRAINER, *_COMPLETIONS})
_EXPECTED = (
    "Define it as: def reward(answer: str, row: dict) -> float, or as a reward function of TRL: "
    "def reward(prompts, completions, **columns) -> list[float]"
)


class BatchReward:
    """A reward function of TRL.

    Where the rows have a text as ``prompt``, it gets prompts and completions as texts, else as chat messages. Columns
    of the rows are passed by name, each a list; a value that a row lacks is None.

    Args:
        function: returns one number per completion. None, NaN, an infinity, or what is no number: that completion has
            no reward. It may take :data:`OF_TRAINER` too.
        place: names it in messages.
    """

    def __init__(self, function: Callable[..., Any], place: str) -> None:
        self._function, self._place = function, place
        parameters = inspect.signature(function).parameters.values()
        named = [param for param in parameters if param.kind not in (param.VAR_KEYWORD, param.VAR_POSITIONAL)]
        self._names = {parameter.name for parameter in named}
        self._takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        self._required = {parameter.name for parameter in named if parameter.default is parameter.empty} - _OF_TRL

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Check that the rows have the columns that the function needs.

        Raises:
            InputError: names a column that no row has.
        """
        missing = sorted(self._required - {name for row in rows for name in row})
        if missing:
            raise InputError(
                f"--reward {self._place} needs {', '.join(missing)}, which no row has",
                why="Parameters other than prompts, completions, completion_ids, "
                f"{', '.join(OF_TRAINER)} are columns of the dataset.",
                fix=_EXPECTED + ".",
            )

    def score(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        rows: Sequence[Mapping[str, Any]],
        of_trainer: Mapping[str, Any],
    ) -> list[tuple[float | None, str]]:
        """The rewards of a batch; where there is none, why, if the function said another thing than None.

        Args:
            prompts, completions: chat messages.
            completion_ids: the sampled ids.
            rows: the row of each completion.
            of_trainer: values of :data:`OF_TRAINER`.
        """
        as_text = all(isinstance(row.get("prompt"), str) for row in rows)
        texts = [
            completion if isinstance(completion, str) else completion[-1].get("content") or ""
            for completion in completions
        ]
        arguments: dict[str, Any] = {name: [row.get(name) for row in rows] for row in rows for name in row}
        arguments |= {
            "prompts": [row["prompt"] for row in rows] if as_text else list(prompts),
            "completion_ids": [list(ids) for ids in completion_ids],
            **dict.fromkeys(_COMPLETIONS, texts if as_text else list(completions)),
            **of_trainer,
        }
        arguments.pop("prompt", None)
        chosen = {
            name: value
            for name, value in arguments.items()  # of the two words for the same only the one that is asked for
            if name in self._names or (self._takes_all and name not in _COMPLETIONS)
        }
        try:
            values = list(self._function(**chosen))
        except Exception as error:  # noqa: BLE001 - the reward function is the user's own code
            return [(None, f"the reward function raised {type(error).__name__}: {error}"[:300])] * len(rows)
        if len(values) != len(completions):
            fault = f"the reward function returned {len(values)} rewards for {len(completions)} completions"
            return [(None, fault)] * len(rows)
        rewards = map(reward_number, values)
        return [
            (reward, "" if reward is not None or value is None else f"the reward function returned {str(value)[:60]!r}")
            for value, reward in zip(values, rewards, strict=True)
        ]


def load_reward(reference: str | None) -> Task[Any] | BatchReward | None:
    """A task that scores completions, or a reward function of TRL; None without a reference.

    Args:
        reference: the name of a task, for its reward; or ``path/to/file.py:function`` or ``package.module:function``.
            The function is called with the answer of a completion and the row of its problem (see
            :data:`engine.tasks.simple.Reward`), or, where it has a parameter ``completions`` or ``outputs``, as a
            reward function of TRL.

    Raises:
        MissingInputError: there is no such file.
        InputError: there is no such task, module or function, or it takes neither an answer and a row nor
            completions.
    """
    if reference is None:
        return None
    if ":" not in reference:
        return task_named(reference)
    function = load_object(reference)
    if inspect.iscoroutinefunction(function):
        raise InputError(f"--reward {reference} is async", fix="Use a normal function; it is called from threads.")
    try:
        if not inspect.signature(function).parameters.keys().isdisjoint(_COMPLETIONS):
            return BatchReward(function, reference)
        inspect.signature(function).bind("answer", {})
    except (TypeError, ValueError) as error:  # not a function, or one with other arguments
        raise InputError(
            f"--reward {reference} cannot be called with an answer and a row",
            why=str(error),
            fix=_EXPECTED,
        ) from None
    return RewardTask(function)


def reward_digest(reference: str) -> str:
    """A digest of the source file of a reward function, or of the verifier of a task, which identifies a run."""
    if ":" not in reference:
        return hashlib.sha256(json.dumps(task_named(reference).verifier(), sort_keys=True).encode()).hexdigest()[:16]
    return source_digest([load_object(reference)]) or reference
