"""The report of a scoring run: counts, rewards by component and by kind of prompt, cache, latency, hashes."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from engine.records import Outcome, Problem, timestamp
from grpo_training.rl_math.advantages import GroupAdvantages
from grpo_training.score_rollouts.near_copies import Payment
from grpo_training.score_rollouts.rollout_rows import RolloutRow, Survey
from grpo_training.score_rollouts.settings import ScoreSettings
from grpo_training.score_rollouts.verdict_log import WorkEntry

_MOST_UNKNOWN = 50


class ScoreReport:
    """Collects the figures row by row; memory is a few numbers per row.

    Args:
        problems: by prompt id.
        fields: fields of the prompts by which there are tables.
    """

    def __init__(self, problems: Mapping[str, Problem], fields: Sequence[str]) -> None:
        self._problems, self._fields = problems, fields
        self._values: dict[str, array[float]] = {"total": array("d")}
        self._samples: Counter[tuple[str, str]] = Counter()  # by a field of the prompts and its value
        self._sums: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._outcomes: Counter[str] = Counter()
        self._gates: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._seconds = array("d")
        self._replies: set[int] = set()
        self._rows = self._cached = self._repeated = self._copies = 0

    @property
    def infra_faults(self) -> int:
        """Rows that could not be verified."""
        return self._outcomes[str(Outcome.INFRA_FAULT)]

    def add(self, row: RolloutRow, entry: WorkEntry, paid: Payment) -> None:
        """Count one row."""
        verdict = entry.verdict
        self._rows += 1
        self._outcomes[str(verdict.outcome)] += 1
        self._gates.update(verdict.failed_gates)
        if verdict.fault is not None:
            self._faults[verdict.fault.kind] += 1
        self._cached += entry.cached
        if not entry.cached:
            self._seconds.append(entry.seconds)
        place = hash((row.group, row.completion.text))
        self._repeated += place in self._replies
        self._replies.add(place)
        self._copies += paid.copies > 1
        if paid.total is None:
            return
        for name, value in {"total": paid.total, **verdict.components}.items():
            if value is not None:
                self._values.setdefault(name, array("d")).append(value)
        meta = self._problems[row.prompt_id].meta
        for name in self._fields:
            values = meta.get(name)
            for value in values if isinstance(values, list) else [] if values is None else [values]:
                self._samples[name, str(value)] += 1
                self._sums[name, str(value)] += paid.total

    def content(
        self,
        settings: ScoreSettings,
        found: Survey,
        groups: Sequence[GroupAdvantages],
        facts: Mapping[str, Any],
        out_digest: str,
    ) -> dict[str, Any]:
        """The report as JSON values.

        Args:
            settings: the settings.
            found: the survey of the rollouts.
            groups: the advantages of the groups.
            facts: what decided on the verdicts, and hashes of the inputs.
            out_digest: SHA-256 of the scored file.
        """
        sizes = Counter(Counter(found.group_of).values())
        return {
            "created_at": timestamp(),
            "inputs": {"prompts": str(settings.prompts), "rollouts": str(settings.rollouts)},
            "outputs": {
                "scored": str(settings.out),
                "cache": None if settings.cache is None else str(settings.cache),
            },
            "counts": {
                "samples": self._rows,
                "unique_prompts": len({prompt for _, prompt in found.groups}),
                "groups": len(found.groups),
                "group_size_hist": {str(size): sizes[size] for size in sorted(sizes)},
                "rows_left_out": found.bad_count,
                "unknown_prompts": dict(found.unknown_prompts.most_common(_MOST_UNKNOWN)),
                "repeated_group_ids": found.repeated_places,
                "repeated_replies_in_group": self._repeated,
                "near_copies_in_group": self._copies,
            },
            "outcomes": dict(self._outcomes),
            "faults": dict(self._faults.most_common()),
            "gates": dict(self._gates),
            "infra_faults": self.infra_faults,
            "advantage": {
                "groups": len(groups),
                "std_zeroed": sum(group.is_zeroed for group in groups),
                "without_advantages": sum(group.values is None for group in groups),
            },
            "reward_summary": {name: summary(values) for name, values in self._values.items()},
            "by": {name: self._by(name) for name in self._fields},
            "cache": {"hits": self._cached, "rate": self._cached / self._rows if self._rows else 0.0},
            "latency_s": {"p50": percentile(self._seconds, 0.5), "p95": percentile(self._seconds, 0.95)},
            "config": settings.model_dump(mode="json"),
            "facts": dict(facts),
            "hashes": {"rollouts": found.digest, "scored": out_digest},
        }

    def _by(self, name: str) -> dict[str, dict[str, float]]:
        """The rewards by the values of a field of the prompts."""
        return {
            value: {"samples": count, "mean": self._sums[name, value] / count}
            for (field, value), count in sorted(self._samples.items())
            if field == name
        }


def summary(values: Sequence[float]) -> dict[str, float | None]:
    """Mean, p50 and p90 of values."""
    mean = math.fsum(values) / len(values) if len(values) else None
    return {"mean": mean, "p50": percentile(values, 0.5), "p90": percentile(values, 0.9)}


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value at ``sorted[round(share * (n - 1))]``, rounded half to even; None without values."""
    return sorted(values)[round(share * (len(values) - 1))] if len(values) else None
