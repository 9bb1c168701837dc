"""Settings of a task's own training reward: which keys of a configuration file they are, and their check."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from pydantic import ValidationError

from engine.errors import InputError
from engine.records import Problem
from engine.task import Task
from engine.task_protocols import TrainsOnline
from engine.tasks.registry import DEFAULT_TASK, known_tasks, task_named
from engine.training_reward import RewardFunction, TrainingReward


def declared_rewards() -> dict[str, TrainingReward[Any, Any]]:
    """The training rewards of the known tasks, by the name of the task."""
    return {task.name: task.training_reward for task in known_tasks() if isinstance(task, TrainsOnline)}


def task_with_settings(given: Mapping[str, Any] | None) -> Task[Any] | None:
    """The only known task whose training reward has these settings; None if there is no such task, or several."""
    if not given:
        return None
    fitting = [
        name for name, reward in declared_rewards().items() if given.keys() <= reward.settings.model_fields.keys()
    ]
    return task_named(fitting[0]) if len(fitting) == 1 else None


def checked_settings(given: Any) -> dict[str, Any]:
    """Settings that some task's training reward accepts, as they were given.

    Args:
        given: field -> value, or such an object as JSON text.

    Raises:
        ValueError: no task has all of these settings, or a value is wrong.
    """
    values = json.loads(given) if isinstance(given, str) else given
    if not isinstance(values, dict):
        raise ValueError("expected settings of a task's training reward as `key: value`")
    rewards = declared_rewards().values()
    fitting = [reward for reward in rewards if values.keys() <= reward.settings.model_fields.keys()]
    if not fitting:
        raise ValueError(f"no task's training reward has these settings: {', '.join(values)}")
    for reward in fitting:
        try:
            reward.read(values)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            text = str(first["msg"]).removeprefix("Value error, ")
            raise ValueError(f"{name}: {text}, got {first['input']!r}" if name else text) from None
    return values


def check_rewards(problems: Sequence[Problem], given: Mapping[str, Any]) -> None:
    """Check that the tasks of the problems have training rewards with these settings, which fit the problems.

    Raises:
        InputError: they do not.
    """
    for reward, settings, of_task in _rewards_of(problems, given).values():
        reward.check(of_task, settings)


@contextmanager
def reward_functions(problems: Sequence[Problem], given: Mapping[str, Any]) -> Iterator[dict[str, RewardFunction]]:
    """The training reward of each task of the problems with these settings, by the name of the task.

    Raises:
        InputError: a task has no training reward with these settings, or they do not fit its problems.
    """
    check_rewards(problems, given)
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(reward.reward_function(of_task, settings))
            for name, (reward, settings, of_task) in _rewards_of(problems, given).items()
        }


def _rewards_of(
    problems: Sequence[Problem], given: Mapping[str, Any]
) -> dict[str, tuple[TrainingReward[Any, Any], Any, list[Problem]]]:
    """Reward, settings and problems of each task."""
    by_task: dict[str, tuple[TrainingReward[Any, Any], Any, list[Problem]]] = {}
    for problem in problems:
        if problem.task not in by_task:
            task = task_named(problem.task)
            reward = task.training_reward if isinstance(task, TrainsOnline) else None
            if reward is None or not given.keys() <= reward.settings.model_fields.keys():
                raise InputError(
                    f"The task {problem.task or DEFAULT_TASK!r} has no training reward with the settings "
                    f"{', '.join(given)}",
                    fix="Leave them out, or train on problems of a task that has them.",
                )
            by_task[problem.task] = (reward, reward.read(given), [])
        by_task[problem.task][2].append(problem)
    return by_task
