"""Rewards: pure functions from measurements to components, and from components to ``r_total``.

Each component is a mean of parts that were measured; a part that could not be is left out, never 0.
``docs/rewards.md`` tells each part in words, with a worked case.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.records import Outcome, Rewards
from engine.statistics.groups import combine_rewards

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.records import Candidate, Problem
    from engine.task import Task

GENERATOR_WEIGHTS = {"r_ans": 0.5, "r_logic": 0.25, "r_graph": 0.25}
CRITIC_WEIGHTS = {"r_ans": 0.25, "r_logic": 0.25, "r_graph": 0.25, "r_fusion": 0.25}


@dataclass(frozen=True)
class Scored:
    """A candidate with its rewards."""

    candidate: Candidate
    rewards: Rewards
    is_correct: bool | None
    outcome: Outcome
    detail: dict[str, Any]


@dataclass(frozen=True)
class Baseline:
    """What a fusion must beat: the best of its inputs, and the inputs that gave their majority answer.

    Both are totals over the components that generators have, by the generators' weights.
    """

    best: float
    majority: float


class RewardEvaluator:
    """Scores candidates of any task.

    Args:
        weights: weight of each component in ``r_total``; renormalised over the components present.
        judge_weight: share of a judge's opinion in ``r_logic``, where there is an opinion.
    """

    def __init__(self, weights: Mapping[str, float] = GENERATOR_WEIGHTS, judge_weight: float = 0.3) -> None:
        self.weights = dict(weights)
        self.judge_weight = judge_weight

    def score(
        self,
        task: Task,
        problem: Problem,
        candidate: Candidate,
        *,
        opinion: float | None = None,
        baseline: Baseline | None = None,
    ) -> Scored:
        """Measure and weigh one candidate; blocking (a checker may take seconds), from any thread.

        Args:
            opinion: a judge's score in [0, 1]; None where no judge was asked or none could be read.
            baseline: for a fusion, what it must beat.
        """
        measurement = task.measure(candidate, problem)
        components = dict(measurement.components)
        if baseline is not None:  # without the opinion, as the inputs were scored
            own = combine_rewards(components, GENERATOR_WEIGHTS)
            components["r_fusion"] = None if own is None else fusion_reward(own, baseline)
        components["r_logic"] = with_opinion(components.get("r_logic"), opinion, self.judge_weight)
        total = combine_rewards(components, self.weights)
        outcome = candidate.outcome if measurement.outcome is Outcome.OK else measurement.outcome
        detail = dict(measurement.detail)
        if opinion is not None:
            detail["judge"] = opinion
        return Scored(candidate, Rewards(**components, r_total=total), measurement.is_correct, outcome, detail)


def mean_of_measured(parts: Mapping[str, float | None]) -> float | None:
    """The mean of the parts that are there; None where none is."""
    present = [value for value in parts.values() if value is not None]
    return sum(present) / len(present) if present else None


def with_opinion(measured: float | None, opinion: float | None, judge_weight: float) -> float | None:
    """``(1 - w) measured + w opinion`` where both are there, else the one that is, else None."""
    return combine_rewards(
        {"measured": measured, "opinion": opinion}, {"measured": 1 - judge_weight, "opinion": judge_weight}
    )


def fusion_reward(total: float, baseline: Baseline) -> float:
    """``1/2 + gain/2`` clipped to [0, 1]; gain is the mean lead over the best input and over the majority.

    0.5 is a fusion that adds nothing: a copy of the best input when that is the majority's too.
    """
    gain = ((total - baseline.best) + (total - baseline.majority)) / 2
    return min(1.0, max(0.0, 0.5 + gain / 2))


def fusion_baseline(answers: Sequence[str | None], totals: Sequence[float]) -> Baseline | None:
    """The baseline of one generator's candidates.

    Args:
        answers: the candidates' answers; None is no answer and never a majority.
        totals: their totals over the generators' components, same length.

    Returns:
        None for no candidates. Of several most frequent answers the one that came first is the majority.
    """
    if not totals:
        return None
    counts = Counter(answer.strip() for answer in answers if answer is not None)
    best = max(totals)
    if not counts:
        return Baseline(best, sum(totals) / len(totals))
    majority, _ = counts.most_common(1)[0]
    scores = [total for answer, total in zip(answers, totals, strict=True) if answer and answer.strip() == majority]
    return Baseline(best, sum(scores) / len(scores))
