"""Closed-loop simulations of one policy: all scenarios and demand seeds, several at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.errors import ScaffoldError
from engine.tasks.traffic.scenarios import find_config, network_digest
from engine.tasks.traffic.simulation.closed_loop import ClosedLoopResult, run_closed_loop, write_demand_of
from engine.tasks.traffic.simulation.process import SimulationFailedError, SimulationThreads
from grpo_training.traffic.evaluation.decisions import CallFailedError, ModelDecisions
from grpo_training.traffic.evaluation.policies import EvaluatedPolicy
from grpo_training.traffic.evaluation.run_log import RunLog
from grpo_training.traffic.settings import EvaluateSettings

_REFRESH_S = 0.5
_FAILURES_ALLOWED = 3
"""Simulations of one policy that fail before any has succeeded; after them the endpoint counts as unavailable."""


@dataclass(frozen=True)
class PlannedRun:
    """One simulation.

    Args:
        folder: the scenario.
        seed: of the demand and of SUMO.
        facts: everything that determines the result, as JSON values.
    """

    folder: Path
    policy: str
    seed: int
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class FailedRun:
    """A simulation without figures, and why."""

    scenario: str
    policy: str
    seed: int
    reason: str


class Demand:
    """The vehicles of each scenario and demand seed, written once into a folder and shared by all policies."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._files: dict[tuple[Path, int], Path | None] = {}
        self._guard = threading.Lock()

    def file(self, folder: Path, seed: int) -> Path | None:
        """See :func:`engine.tasks.traffic.simulation.closed_loop.write_demand_of`. From any thread."""
        with self._guard:
            if (folder, seed) not in self._files:
                own = self._place / str(len(self._files))  # scenarios of different folders may have one name
                own.mkdir()
                self._files[folder, seed] = write_demand_of(folder, seed, own)
            return self._files[folder, seed]


def planned_runs(
    settings: EvaluateSettings, folders: Sequence[Path], policy: EvaluatedPolicy, prompting: Mapping[str, Any]
) -> list[PlannedRun]:
    """The simulations of a policy.

    Args:
        prompting: what determines a model's decisions besides its weights.
    """
    seeds = range(settings.seed, settings.seed + settings.seeds)
    return [
        PlannedRun(
            folder,
            policy.name,
            seed,
            {
                "scenario": folder.resolve().name,
                "network": network_digest(find_config(folder)),
                "policy": policy.id,
                "seed": seed,
                "seconds": settings.seconds,
                "extend_seconds": settings.extend_seconds,
                **({} if policy.model is None else prompting),
            },
        )
        for folder in folders
        for seed in seeds
    ]


def simulate(
    runs: Sequence[PlannedRun],
    settings: EvaluateSettings,
    log: RunLog,
    vehicles: Demand,
    model: ModelDecisions | None,
    refresh: Callable[[int], None],
) -> tuple[list[ClosedLoopResult], list[FailedRun]]:
    """Run what is not in the log yet.

    Args:
        model: decides; None for a baseline.
        refresh: called about twice a second with the number of simulations that ended since the last call.

    Returns:
        the figures of all runs in their order, also those of the log; and the runs that failed.

    Raises:
        ScaffoldError: the endpoint refuses every call, the budget is exhausted, the first runs all failed.
    """
    found = [log.find(run.facts) for run in runs]
    refresh(sum(result is not None for result in found))
    failed: list[FailedRun] = []
    with SimulationThreads(settings.parallel, on_stop=model.stop if model else lambda: None) as threads:
        running: dict[Future[ClosedLoopResult], int] = {
            threads.submit(_simulate, run, settings, log, vehicles, model): number
            for number, run in enumerate(runs)
            if found[number] is None
        }
        left = set(running)
        while left:
            done, left = wait(left, timeout=_REFRESH_S, return_when=FIRST_COMPLETED)
            refresh(len(done))
            for future in done:
                run = runs[running[future]]
                try:
                    found[running[future]] = future.result()
                except (SimulationFailedError, CallFailedError) as error:
                    failed.append(FailedRun(run.folder.resolve().name, run.policy, run.seed, _reason(error)))
                    if len(failed) > _FAILURES_ALLOWED and not any(found):
                        raise
    # The name of a policy is that of this start; the same weights may have been called otherwise.
    return [replace(each, policy=run.policy) for each, run in zip(found, runs, strict=True) if each is not None], failed


def _simulate(
    run: PlannedRun, settings: EvaluateSettings, log: RunLog, vehicles: Demand, model: ModelDecisions | None
) -> ClosedLoopResult:
    result = run_closed_loop(
        run.folder,
        run.policy,
        run.seed,
        decide=None if model is None else model.decide,
        options={"extend_seconds": settings.extend_seconds},
        routes=vehicles.file(run.folder, run.seed),
        seconds=settings.seconds,
        limit_s=settings.time_limit,
    )
    log.add(run.facts, result)
    return result


def _reason(error: ScaffoldError) -> str:
    return f"{error.what}: {error.why}" if error.why else error.what
