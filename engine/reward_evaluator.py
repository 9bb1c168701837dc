"""Rewards: from the measurement of a task to the weighted total. Definitions: ``docs/reference/rewards.md``."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import ConfigurationError
from engine.records import AnswerSource, Candidate, Fault, Outcome, Problem, Rewards
from engine.statistics.groups import combine_rewards, majority
from engine.task import Measurement, Task
from engine.task_protocols import GradesInParts

FUSION_WEIGHT = 0.25
"""Default weight of ``r_fusion``."""
_MEASURED_LOGIC = "r_logic_measured"
"""The detail that keeps ``r_logic`` as it was before the opinion of a judge."""
RUBRIC = "r_rubric"
"""The component that a judge measures, by the rubric of a problem without a truth."""
_FULFILLED = 0.5
"""An answer that fulfils this share of its rubric counts as right."""


@dataclass(frozen=True)
class Scored:
    """A candidate with its rewards.

    Args:
        candidate: what was scored.
        rewards: components and total.
        is_correct: whether the answer is right; None if it could not be checked.
        answer: the answer that was scored.
        answer_source: where the answer comes from.
        outcome: how parsing and measuring ended.
        fault: details of a fault.
        detail: the figures behind the components, as stored on the rollout.
        measurement: what the task measured.
    """

    candidate: Candidate
    rewards: Rewards
    is_correct: bool | None
    answer: str | None
    answer_source: AnswerSource
    outcome: Outcome
    fault: Fault | None
    detail: dict[str, Any]
    measurement: Measurement


@dataclass(frozen=True)
class Baseline:
    """The totals that a fusion is compared with, by the weights of the task.

    Args:
        best: the best total of its inputs.
        majority: the mean total of the inputs with the most frequent answer; of all, if several are equally frequent.
    """

    best: float
    majority: float


class RewardEvaluator:
    """Scores candidates of any task.

    Args:
        weights: weights for tasks whose components all have one here. Other tasks use their own ``reward_weights``;
            None: every task does.
        judge_weight: share of a judge's opinion in ``r_logic``.
    """

    def __init__(self, weights: Mapping[str, float] | None = None, judge_weight: float = 0.3) -> None:
        self._weights = dict(weights or {})
        self._judge_weight = judge_weight

    def weights_of(self, task: Task, components: Mapping[str, float | None]) -> dict[str, float]:
        """The weights of a task's components and of ``r_fusion`` in ``r_total``."""
        weights = _own_weights(task, components)
        if weights.keys() <= self._weights.keys():
            weights = self._weights
        return {**weights, "r_fusion": self._weights.get("r_fusion", FUSION_WEIGHT)}

    def score(
        self,
        task: Task,
        problem: Problem,
        candidate: Candidate,
        *,
        opinion: float | None = None,
        baseline: Baseline | None = None,
    ) -> Scored:
        """Evaluate a candidate and weight its components. Blocking (a checker may take seconds); thread-safe.

        A component outside [0, 1] is a fault of the task: nothing is scored.

        Args:
            task: the task of the problem.
            problem: the problem.
            candidate: the candidate.
            opinion: a judge's score in [0, 1]; None if no judge was asked or its reply could not be read.
            baseline: for a fusion, the totals that it is compared with.
        """
        measurement = _within_bounds(task.evaluate(candidate, problem))
        if RUBRIC in measurement.components and measurement.components[RUBRIC] is None:
            measurement, opinion = _by_rubric(measurement, opinion), None
        components = dict(measurement.components)
        weights = self.weights_of(task, components)
        detail = dict(measurement.detail)
        if baseline is not None:  # without the opinion, as in measured_total
            total = task_total(task, components)
            components["r_fusion"] = None if total is None else fusion_reward(total, baseline)
        if opinion is not None:
            detail |= {"judge": opinion, _MEASURED_LOGIC: components.get("r_logic")}
        if opinion is not None or "r_logic" in components:
            weighed = None if opinion is None else opinion * measurement.opinion_weight
            components["r_logic"] = with_opinion(components.get("r_logic"), weighed, self._judge_weight)
        if measurement.remarks:
            detail["remarks"] = list(measurement.remarks)
        return Scored(
            candidate=candidate,
            rewards=Rewards.of(components, combine_rewards(components, weights)),
            is_correct=measurement.is_correct,
            answer=measurement.answer,
            answer_source=measurement.answer_source,
            outcome=candidate.outcome if measurement.outcome is Outcome.OK else measurement.outcome,
            fault=measurement.fault or candidate.fault,
            detail=detail,
            measurement=measurement,
        )


def _within_bounds(measurement: Measurement) -> Measurement:
    """The measurement; one with a component outside [0, 1] is an ``infra_fault``."""
    components = measurement.components.items()
    bad = next((f"{name} is {value}" for name, value in components if value is not None and not 0 <= value <= 1), None)
    return measurement if bad is None else _not_verified(measurement, bad)


def _by_rubric(measurement: Measurement, opinion: float | None) -> Measurement:
    """The measurement with the opinion of the judge; without one nothing is scored."""
    if opinion is None:
        return _not_verified(measurement, "no judge has read the answer, or its opinion could not be read")
    components = {**measurement.components, RUBRIC: opinion}
    return replace(measurement, components=components, is_correct=opinion >= _FULFILLED)


def _not_verified(measurement: Measurement, why: str) -> Measurement:
    """The measurement without components, so that nothing is scored."""
    fault, outcome = Fault(kind="not_verified", message=why), Outcome.INFRA_FAULT
    return replace(measurement, components={}, is_correct=None, outcome=outcome, fault=fault, detail={"why": why})


def task_total(task: Task, components: Mapping[str, float | None]) -> float | None:
    """The total of components by the task's own weights; None if nothing was measured."""
    return combine_rewards(components, _own_weights(task, components))


def measured_total(task: Task, rewards: Rewards, detail: Mapping[str, Any]) -> float | None:
    """The total by which a fusion and its inputs are compared: stored rewards by the weights of the task.

    ``r_fusion`` and the opinion of a judge are left out.

    Args:
        task: the task of the problem.
        rewards: of a rollout or a fusion.
        detail: its ``reward_detail``.

    Returns:
        None if nothing was measured. The stored total if the record has components that the task does not know, as
        files of other programs may.
    """
    components = {name: value for name, value in rewards.by_name().items() if name != "r_fusion"}
    if _MEASURED_LOGIC in detail:
        components["r_logic"] = detail[_MEASURED_LOGIC]
    try:
        return task_total(task, components)
    except ConfigurationError:
        return rewards.r_total if rewards.r_fusion is None else None


def policy_reward(task: Task, rewards: Rewards, is_correct: bool | None) -> float | None:
    """The reward that trains weights: structure is paid only if the answer is right.

    Args:
        task: gives the weights, and names the components that grade the answer (``GradesInParts``; else ``r_ans``).
        rewards: of a rollout.
        is_correct: the verdict on its answer; None if it could not be checked.

    Returns:
        ``r_total`` of a right answer. Of another one the share of ``r_total`` from the grading components: for
        ``math`` ``0.5 r_ans``, which is 0. ``r_total`` also where no component grades the answer, and where the record
        has components that the task does not know.
    """
    components = {name: value for name, value in rewards.by_name().items() if value is not None}
    names = task.answer_components if isinstance(task, GradesInParts) else frozenset({"r_ans"})
    graded = components.keys() & names
    if is_correct or not graded:
        return rewards.r_total
    try:
        return task_total(task, {name: components[name] if name in graded else 0.0 for name in components})
    except ConfigurationError:
        return rewards.r_total


def _own_weights(task: Task, components: Mapping[str, float | None]) -> dict[str, float]:
    weights = dict(task.reward_weights)
    if not weights:
        return dict.fromkeys(components, 1.0)
    for name, value in components.items():
        if value is not None and name not in weights:
            raise ConfigurationError(
                f"Task {task.name!r} measures {name!r} and gives it no weight",
                fix="Add it to the task's reward_weights.",
            )
    return weights


def with_opinion(measured: float | None, opinion: float | None, judge_weight: float) -> float | None:
    """``(1 - w) measured + w opinion`` if both were measured, else the one that was, else None."""
    return combine_rewards(
        {"measured": measured, "opinion": opinion}, {"measured": 1 - judge_weight, "opinion": judge_weight}
    )


def fusion_reward(total: float, baseline: Baseline) -> float:
    """``1/2 + gain/2`` clipped to [0, 1]; gain is the mean lead over the best input and over the majority.

    A fusion that adds nothing, such as a copy of the best input if that is also the majority's, gets 0.5.
    """
    gain = ((total - baseline.best) + (total - baseline.majority)) / 2
    return min(1.0, max(0.0, 0.5 + gain / 2))


def fusion_baseline(
    answers: Sequence[str | None], totals: Sequence[float], same: Callable[[str, str], bool] = operator.eq
) -> Baseline | None:
    """The baseline of one generator's candidates.

    Args:
        answers: the candidates' answers; None, for a candidate without answer, is never the majority.
        totals: the candidates' totals by the weights of the task, same length.
        same: whether two texts are the same answer (``Task.same_answer``).

    Returns:
        None if there are no candidates. Without a majority, the mean of all totals stands in its place.
    """
    if not totals:
        return None
    agreeing = majority(answers, same) or range(len(totals))
    return Baseline(max(totals), math.fsum(totals[index] for index in agreeing) / len(agreeing))


def unverified(scored: Scored | Measurement) -> Fault:
    """The fault of a candidate that a checker could not measure."""
    why = scored.detail.get("why", "unknown reason")
    return Fault(kind="verifier_unavailable", message=f"an answer could not be verified: {why}")
