"""The requests behind a group: when they were sent, how long they took, and what they used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.records import Completion, Fault, Fusion, RolloutGroup, Usage
from grpo_training.view.data.journal import moments_of

_LARGEST_S = 1e9


@dataclass(frozen=True)
class RequestRow:
    """One request.

    Args:
        kind: ``rollout`` or ``fusion``.
        name: number of the rollout; of a fusion its line in the critic's file.
        usage: its tokens, attempts and price.
        latency_s: from sending to the reply.
        finish: why the reply ended, or the kind of the fault.
        model: that answered.
        stored_at: seconds since 1970 at which the journal stored the reply; None if it does not have it.
        bar: begin and width in the time line, from 0 to 100; None without a moment.
    """

    kind: str
    name: str
    usage: Usage
    latency_s: float
    finish: str
    model: str
    stored_at: float | None = None
    bar: tuple[float, float] | None = None


@dataclass(frozen=True)
class Trace:
    """The requests of a group in order of sending, and their sums; ``span_s``: from the first to the last."""

    rows: list[RequestRow]
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    span_s: float | None


def trace_of(group: RolloutGroup, fusions: Sequence[tuple[int, Fusion]], journal: Path) -> Trace:
    """The trace of a group.

    Args:
        group: the group.
        fusions: made of it, each with its line in the critic's file.
        journal: of the folder; it need not exist.
    """
    requests = [("rollout", str(one.rollout_id), one.completion, one.fault) for one in group.rollouts]
    requests += [
        ("fusion", str(line), one.completion, one.fault)
        for line, one in fusions
        if one.completion is not None or one.fault is not None
    ]
    moments = moments_of(journal, [one.request_key for _, _, one, _ in requests if one is not None])
    rows = [_row(kind, name, one, fault, moments) for kind, name, one, fault in requests]
    timed = [(row.stored_at - row.latency_s, row.stored_at) for row in rows if row.stored_at is not None]
    start, end = min((one for one, _ in timed), default=0.0), max((one for _, one in timed), default=0.0)
    rows = [_placed(row, start, end) for row in rows]
    costs = [row.usage.cost_usd for row in rows if row.usage.cost_usd is not None]
    return Trace(
        rows=sorted(rows, key=lambda row: (row.bar is None, row.bar or (0.0, 0.0))),
        prompt_tokens=sum(row.usage.prompt_tokens for row in rows),
        completion_tokens=sum(row.usage.completion_tokens for row in rows),
        cost_usd=sum(costs) if costs else None,
        span_s=end - start if timed else None,
    )


def _row(
    kind: str, name: str, completion: Completion | None, fault: Fault | None, moments: Mapping[str, float]
) -> RequestRow:
    one = completion or Completion(text="", usage=Usage(attempts=0))
    return RequestRow(
        kind=kind,
        name=name,
        usage=one.usage,
        latency_s=one.latency_s if 0 <= one.latency_s < _LARGEST_S else 0.0,
        finish=(fault.kind if fault is not None else one.finish_reason or "")[:80],
        model=one.model[:200],
        stored_at=moments.get(one.request_key),
    )


def _placed(row: RequestRow, start: float, end: float) -> RequestRow:
    if row.stored_at is None:
        return row
    span = max(end - start, 1e-9)
    width = 100 * row.latency_s / span
    return replace(row, bar=(100 * (row.stored_at - row.latency_s - start) / span, max(width, 0.5)))
