"""What all records share, and how a model call or a check ended."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

FORMAT = 1
"""Version of the file format; written to every line as ``format``."""


class Record(BaseModel):
    """Immutable, compared by value. Unknown keys, as in files written by other programs, are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False, defer_build=True)


def left_out(default: Any = None) -> Any:
    """A field that files have only where it differs from its default: a value, or the type of an empty one."""
    if isinstance(default, type):
        return Field(default_factory=default, exclude_if=lambda value: not value)
    return Field(default=default, exclude_if=lambda value: value == default)


def timestamp() -> str:
    """The present time as records store it: ISO 8601 in UTC, in seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Outcome(StrEnum):
    """How a model call or a check ended."""

    OK = "ok"
    MODEL_FAULT = "model_fault"
    INFRA_FAULT = "infra_fault"
    JUDGE_FAULT = "judge_fault"
    VERIFIER_TIMEOUT = "verifier_timeout"
    FATAL_CONFIG = "fatal_config"

    @property
    def carries_reward(self) -> bool:
        """Whether a rollout with this outcome has a reward (after a verifier timeout, the one that its task gives)."""
        return self in (Outcome.OK, Outcome.MODEL_FAULT, Outcome.VERIFIER_TIMEOUT)


REFUSED_REQUEST = "rejected_request"
"""Kind of the fault of a request that alone failed: its endpoint answers others."""


class Fault(Record):
    """What went wrong. ``kind`` is a short stable code such as ``http_429`` or ``no_json``."""

    kind: str
    message: str = ""

    @property
    def is_alone(self) -> bool:
        """Whether only this request failed, so that a run goes on without its problem."""
        return self.kind == REFUSED_REQUEST
