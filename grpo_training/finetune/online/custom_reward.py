"""A user's own reward function for online training: ``--reward module:function`` or ``--reward file.py:function``."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import InputError

if TYPE_CHECKING:
    from types import ModuleType

    from engine.records import Problem

RewardFunction = Callable[[str, Mapping[str, Any]], float | None]
"""Scores one completion: its text and the row of its problem -> the reward, or None if it cannot be scored."""


@dataclass(frozen=True)
class CustomReward:
    """A loaded reward function.

    Args:
        name: of the function; its metric is ``rewards/<name>/mean``.
        function: the function.
        digest: of its source file; part of the identity of a run.
    """

    name: str
    function: RewardFunction
    digest: str

    def __call__(self, text: str, problem: Problem) -> float | None:
        """The reward of one completion.

        Raises:
            Exception: whatever the function raises; TypeError or ValueError if it returns no finite number.
        """
        row = {"id": problem.id, "problem": problem.text, "answer": problem.answer, "task": problem.task}
        value = self.function(text, row | {"meta": problem.meta})
        if value is None:
            return None
        reward = float(value)
        if isinstance(value, str) or not math.isfinite(reward):
            raise ValueError(f"{self.name} returned {value!r}, expected a finite number or None")
        return reward


def load_reward(place: str) -> CustomReward:
    """Import a reward function.

    Args:
        place: ``module:function`` of an importable module, or ``path/to/file.py:function``.

    Raises:
        InputError: there is no such module, file or function, or it does not take a text and a row.
    """
    source, _, name = place.rpartition(":")
    if not source or not name:
        raise InputError(
            f"--reward {place}: no function is named", fix="Use module:function or path/to/file.py:function."
        )
    module = _import(source, place)
    function = getattr(module, name, None)
    if not callable(function):
        own = [
            one for one, value in inspect.getmembers(module, inspect.isfunction) if value.__module__ == module.__name__
        ]
        raise InputError(
            f"--reward {place}: {source} has no function {name!r}", fix=f"Its functions: {', '.join(own) or 'none'}."
        )
    if inspect.iscoroutinefunction(function):
        raise InputError(f"--reward {place}: the function is async", fix="Use a normal function; it runs in threads.")
    try:
        inspect.signature(function).bind("completion", {})
    except TypeError as error:
        raise InputError(
            f"--reward {place}: {name} cannot be called as {name}(completion, row)",
            why=str(error),
            fix="Define it as: def reward(completion: str, row: dict) -> float",
        ) from None
    file = getattr(module, "__file__", None)
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16] if file else source
    return CustomReward(name, function, digest)


def _import(source: str, place: str) -> ModuleType:
    try:
        if not source.endswith(".py"):
            return importlib.import_module(source)
        path = Path(source).expanduser().resolve()
        if not path.is_file():
            raise InputError(f"--reward {place}: no such file: {path}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(path.stem, module)  # dataclasses and pickle look the module up by its name
        spec.loader.exec_module(module)
    except InputError:
        raise
    except Exception as error:  # user code may raise anything on import
        raise InputError(
            f"--reward {place}: {source} cannot be imported",
            why=f"{type(error).__name__}: {error}",
            fix="Correct the module; a file is given by its path, such as rewards/length.py:reward.",
        ) from error
    return module
