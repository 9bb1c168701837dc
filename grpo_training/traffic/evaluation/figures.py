"""Means, paired differences and their 95 % intervals, from simulations and from stored decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.statistics.paired import Estimate, clustered_mean, paired_difference
from engine.tasks.traffic.simulation.closed_loop import ClosedLoopResult
from grpo_training.traffic.evaluation.policies import BASELINE
from grpo_training.traffic.evaluation.stored_rows import RowResult

TRAFFIC_FIGURES = {
    "mean_waiting_s": "waiting s",
    "mean_queue": "queue",
    "mean_travel_s": "travel s",
    "throughput": "arrived",
    "switches": "switches",
}
"""Figures of a simulation -> their names in tables."""

_Clusters = dict[str, dict[str, list[float]]]
"""Figure -> cluster -> values."""


@dataclass(frozen=True)
class PolicyFigures:
    """The estimates of one policy.

    Args:
        means: figure -> its mean.
        differences: figure -> its difference to Max-Pressure, paired; empty where that was not evaluated.
    """

    means: Mapping[str, Estimate]
    differences: Mapping[str, Estimate]

    def to_json(self) -> dict[str, Any]:
        """The estimates as JSON values."""
        return {
            "means": {name: asdict(each) for name, each in self.means.items()},
            "difference_to_max_pressure": {name: asdict(each) for name, each in self.differences.items()},
        }


def by_policy(results: Sequence[ClosedLoopResult]) -> dict[str, PolicyFigures]:
    """The figures of each policy over all of its simulations.

    The demand seed is the cluster: the scenarios are taken as given, and an interval says how much the mean over
    them would change with other demand.
    """
    return _closed_loop(results, lambda result: str(result.seed))


def over_scenarios(results: Sequence[ClosedLoopResult]) -> dict[str, PolicyFigures]:
    """As :func:`by_policy`, with the scenario as the cluster: an interval is also about other scenarios."""
    return _closed_loop(results, lambda result: result.scenario)


def by_scenario(results: Sequence[ClosedLoopResult]) -> dict[str, dict[str, PolicyFigures]]:
    """Scenario -> policy -> figures."""
    return {
        scenario: by_policy([result for result in results if result.scenario == scenario])
        for scenario in _distinct(result.scenario for result in results)
    }


def _closed_loop(
    results: Sequence[ClosedLoopResult], cluster: Callable[[ClosedLoopResult], str]
) -> dict[str, PolicyFigures]:
    """A difference is over the simulations (scenario and seed) that are complete for both policies."""
    runs = {
        policy: {(result.scenario, result.seed): result for result in results if result.policy == policy}
        for policy in _distinct(result.policy for result in results)
    }
    base = runs.get(BASELINE, {})

    def clusters(of: Iterable[ClosedLoopResult]) -> _Clusters:
        found: _Clusters = {}
        for result in of:
            for figure in TRAFFIC_FIGURES:
                found.setdefault(figure, {}).setdefault(cluster(result), []).append(result.figures[figure])
        return found

    found = {}
    for policy, own in runs.items():
        common = sorted(own.keys() & base.keys()) if policy != BASELINE else []
        mine, theirs = (clusters(side[name] for name in common) for side in (own, base))
        found[policy] = _figures(clusters(own[name] for name in sorted(own)), mine, theirs)
    return found


def of_stored_rows(results: Mapping[str, Sequence[RowResult]]) -> dict[str, PolicyFigures]:
    """The figures of each policy on stored decisions: ``regret``, ``agreement``, ``unreadable``, ``zero_variance``.

    ``agreement`` is over the decisions whose branches differ; ``zero_variance`` is the share of sampled groups whose
    rewards are all equal. Decisions of one scenario within five minutes form a cluster.

    Args:
        results: policy -> its results.
    """
    base = {result.id: result for result in results.get(BASELINE, ())}
    found = {}
    for policy, own in results.items():
        common = [result for result in own if result.id in base and policy != BASELINE]
        mine, theirs = _row_clusters(common), _row_clusters(base[result.id] for result in common)
        compared = {name: values for name, values in mine.items() if name in ("regret", "agreement")}
        found[policy] = _figures(_row_clusters(own), compared, theirs)
    return found


def _figures(own: _Clusters, mine: _Clusters, theirs: _Clusters) -> PolicyFigures:
    """The means of a policy, and the differences of what it and Max-Pressure have in common."""
    return PolicyFigures(
        {name: clustered_mean(values) for name, values in own.items()},
        {name: paired_difference(values, theirs[name]) for name, values in mine.items()},
    )


def _row_clusters(results: Iterable[RowResult]) -> _Clusters:
    """Without figures that no row has."""
    found: _Clusters = {}
    for result in results:
        values = {
            "regret": result.regret,
            "agreement": result.agreement,
            "unreadable": result.unreadable,
            "zero_variance": None if result.has_spread is None else float(not result.has_spread),
        }
        for name, value in values.items():
            if value is not None:
                found.setdefault(name, {}).setdefault(result.cluster, []).append(value)
    return found


def rows_by_scenario(results: Mapping[str, Sequence[RowResult]]) -> dict[str, dict[str, PolicyFigures]]:
    """Scenario -> policy -> figures on its stored decisions."""
    scenarios = _distinct(result.scenario for own in results.values() for result in own)
    return {
        scenario: of_stored_rows(
            {policy: [result for result in own if result.scenario == scenario] for policy, own in results.items()}
        )
        for scenario in scenarios
    }


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
