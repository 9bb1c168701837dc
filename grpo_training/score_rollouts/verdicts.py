"""The verdict on one reply: what is verified in a worker, stored, and written to the scored row."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

from pydantic import Field

from engine.records import Completion, Fault, Outcome, Problem, Record
from engine.reward_evaluator import RewardEvaluator, Scored
from engine.task import ScoredFields, Task
from engine.task_protocols import AddsScoredFields

FORMAT = 5
"""Version of the stored verdict; part of every key."""

_ATTEMPTS = 2
"""A reply whose check could not be started is checked once more."""
_EVALUATOR = RewardEvaluator()


class StoredVerdict(Record):
    """The result of verifying one reply.

    Args:
        outcome: how it ended. With ``infra_fault`` there is no reward.
        total: the total reward in [0, 1].
        is_correct: whether the answer is right; None if it could not be checked.
        components: the components behind the total, None where not measured.
        validation: the verdict in words.
        reward: further keys of ``reward``.
        row: further keys of the row.
        failed_gates: what failed, in short codes.
        fault: why the reply could not be read or verified.
    """

    outcome: Outcome
    total: float | None = Field(default=None, ge=0, le=1 + 1e-9)
    is_correct: bool | None = None
    components: dict[str, float | None] = Field(default_factory=dict)
    validation: dict[str, Any] = Field(default_factory=dict)
    reward: dict[str, Any] = Field(default_factory=dict)
    row: dict[str, Any] = Field(default_factory=dict)
    failed_gates: list[str] = Field(default_factory=list)
    fault: Fault | None = None

    @property
    def has_reward(self) -> bool:
        """Whether the reply could be verified."""
        return self.outcome.carries_reward and self.total is not None

    @property
    def is_reusable(self) -> bool:
        """Whether the same reply has the same verdict at any time. A timeout depends on the machine's load."""
        return self.has_reward and self.outcome is not Outcome.VERIFIER_TIMEOUT


class RowVerdict(NamedTuple):
    """The verdict on a row, and whether it was reached before, by another run or for an equal reply."""

    verdict: StoredVerdict
    cached: bool


def json_digest(value: Any) -> str:
    """The SHA-256 of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode(errors="replace")).hexdigest()


def verdict_key(verifier: str, problem: Problem, completion: Completion) -> str:
    """The key of the verdict on a reply to a problem: a hash of everything that decides on it.

    Args:
        verifier: a digest of the task with its options and checkers.
        problem: the problem.
        completion: the reply.
    """
    reply = [completion.text, completion.reasoning, completion.finish_reason]
    return json_digest([FORMAT, verifier, problem.model_dump(mode="json"), reply])


def completion_hash(completion: Completion) -> str:
    """SHA-256 of the text of a reply."""
    return hashlib.sha256(completion.text.encode(errors="replace")).hexdigest()


def verify(task: Task, problem: Problem, completion: Completion) -> StoredVerdict:
    """Parse and score a reply. A check that could not be started is tried once more."""
    candidate = task.parse(completion, problem)
    for _ in range(_ATTEMPTS):
        scored = _EVALUATOR.score(task, problem, candidate)
        if scored.outcome is not Outcome.INFRA_FAULT:
            break
    return _verdict(task, scored)


def _verdict(task: Task, scored: Scored) -> StoredVerdict:
    measurement, total = scored.measurement, scored.rewards.r_total
    fields = task.scored_fields(scored.candidate, measurement) if isinstance(task, AddsScoredFields) else ScoredFields()
    is_scored = scored.outcome.carries_reward and total is not None
    outcome, fault = (scored.outcome, scored.fault) if is_scored else (Outcome.INFRA_FAULT, _why_not(scored))
    facts = {"outcome": str(outcome), "fault": None if fault is None else fault.model_dump()}
    validation: dict[str, Any] = {
        "answer": measurement.answer if is_scored else None,
        "answer_source": measurement.answer_source if is_scored else None,
        "detail": dict(measurement.detail),
        **facts,
    }
    if fields.validation is not None:
        validation = dict(fields.validation) if is_scored else {**fields.validation, **validation}
    return StoredVerdict(
        outcome=outcome,
        total=total if is_scored else None,
        is_correct=scored.is_correct if is_scored else None,
        components=dict(measurement.components) if is_scored else {},
        validation=_plain(validation),
        reward=_plain(dict(fields.reward)),
        row=_plain(dict(fields.row)),
        failed_gates=list(fields.failed_gates) if is_scored else [],
        fault=fault,
    )


def _why_not(scored: Scored) -> Fault:
    """Why a reply has no reward."""
    why = (
        "no component was measured" if scored.outcome.carries_reward else str(scored.measurement.detail.get("why", ""))
    )
    return scored.measurement.fault or Fault(kind="not_verified", message=why)


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """The value as JSON values, so that a stored verdict equals a fresh one."""
    plain: dict[str, Any] = json.loads(json.dumps(value, default=str), parse_constant=lambda _: None)
    return plain
