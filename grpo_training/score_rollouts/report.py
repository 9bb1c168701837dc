"""The report of a scoring run: counts, outcomes, rewards by component, hits of the cache."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from engine.records import timestamp
from grpo_training.score_rollouts.rollout_rows import Survey
from grpo_training.score_rollouts.scored_rows import Advantages
from grpo_training.score_rollouts.settings import ScoreSettings
from grpo_training.score_rollouts.verdicts import RowVerdict


def report_content(
    settings: ScoreSettings, survey: Survey, verdicts: Sequence[RowVerdict], advantages: Advantages
) -> dict[str, Any]:
    """The report as JSON values."""
    outcomes: Counter[str] = Counter()
    gates: Counter[str] = Counter()
    values: defaultdict[str, list[float]] = defaultdict(list)
    cached = 0
    for verdict, is_cached in verdicts:
        outcomes[str(verdict.outcome)] += 1
        gates.update(verdict.failed_gates)
        cached += is_cached
        for name, value in {"total": verdict.total, **verdict.components}.items():
            if value is not None:
                values[name].append(value)
    sizes = Counter(Counter(survey.group_of).values())
    return {
        "created_at": timestamp(),
        "config": settings.model_dump(mode="json"),
        "counts": {
            "samples": survey.rows,
            "unique_prompts": len({prompt for _, prompt in survey.groups}),
            "groups": len(survey.groups),
            "group_size_hist": {str(size): sizes[size] for size in sorted(sizes)},
            "rows_left_out": survey.bad_count,
        },
        "outcomes": dict(outcomes),
        "gates": dict(gates),
        "advantage": {
            "groups": len(advantages),
            "std_zeroed": sum(of_group is not None and not any(of_group) for of_group in advantages),
            "without_advantages": sum(of_group is None for of_group in advantages),
        },
        "reward_summary": {name: summary(of_rows) for name, of_rows in values.items()},
        "cache": {"hits": cached, "rate": cached / survey.rows},
    }


def summary(values: Sequence[float]) -> dict[str, float]:
    """Mean, p50 and p90 of values; a percentile is the value at ``sorted[round(share * (n - 1))]``."""
    ordered = sorted(values)
    p50, p90 = (ordered[round(share * (len(ordered) - 1))] for share in (0.5, 0.9))
    return {"mean": math.fsum(values) / len(values), "p50": p50, "p90": p90}
