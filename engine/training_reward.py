"""Rewards of online training that have settings of their own. A task may offer one beside its ``r_total``."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from engine.records import Candidate, ContentT, Problem

SettingsT = TypeVar("SettingsT", bound=BaseModel)


@dataclass(frozen=True)
class Pay:
    """What one completion earns.

    Args:
        total: the reward, any finite number; None where it could not be measured through no fault of the model.
        parts: its terms by name, before their weights.
        figures: further figures of the completion, for the metrics; one that does not apply is left out.
        is_correct: the verdict; None if it could not be checked.
        error: why there is no ``total``.
    """

    total: float | None
    parts: Mapping[str, float] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    is_correct: bool | None = None
    error: str = ""


RewardFunction = Callable[[Candidate[Any], Problem], Pay]
"""A training reward with its settings."""


class TrainingReward(ABC, Generic[SettingsT, ContentT]):
    """How online training pays completions where the configuration has settings of this reward.

    Attributes:
        settings: the settings, a pydantic model that forbids unknown fields. Its fields are keys of a configuration.
        spellings: other keys of a configuration file -> field; a key inside a section is written ``section.key``.
        without_effect: keys that files of other programs have, and that change nothing here -> the reason.
    """

    settings: type[SettingsT]
    spellings: Mapping[str, str] = MappingProxyType({})
    without_effect: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def pay(self, candidate: Candidate[ContentT], problem: Problem, settings: SettingsT) -> Pay:
        """The reward of a candidate, readable or not. Quick; from several threads; never raises for model output."""

    def check(self, problems: Sequence[Problem], settings: SettingsT) -> None:
        """Refuse problems that these settings do not fit.

        Raises:
            InputError: says what differs.
        """

    def reward_function(
        self, problems: Sequence[Problem], settings: SettingsT
    ) -> AbstractContextManager[RewardFunction]:
        """:meth:`pay` with these settings, for a block in which these problems are scored.

        A reward that needs processes or files for it opens them here and closes them with the block.
        """
        return nullcontext(functools.partial(self.pay, settings=settings))

    def keys(self) -> dict[str, str]:
        """All keys of a configuration file with the field that each sets."""
        return {**{name: name for name in self.settings.model_fields}, **self.spellings}

    def read(self, values: Mapping[str, Any]) -> SettingsT:
        """The settings with these values.

        Raises:
            ValidationError: an unknown field, or a wrong value.
        """
        return self.settings.model_validate(dict(values))
