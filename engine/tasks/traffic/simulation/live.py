"""Outcomes simulated on demand from stored states, instead of read from the rows."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.tasks.traffic.rewards import OutcomeSettings
from engine.tasks.traffic.rows import Branches, BranchResult, TrafficRow
from engine.tasks.traffic.simulation.process import SimulationFailedError, SimulationProcess, require_sumo

_NAMED = 5


class TooManyFailuresError(SimulationFailedError):
    """More simulated decisions failed than are allowed."""

    exit_code = 3


@dataclass(frozen=True)
class LiveScenario:
    """What is needed to simulate decisions of one scenario again.

    Args:
        config: its ``.sumocfg``.
        options: those of the generation, see :class:`engine.tasks.traffic.simulation.sumo.SimulationOptions`.
        folder: that of the dataset; state files are relative to it.
        rows: the rows of the dataset, by id.
    """

    config: Path
    options: Mapping[str, Any]
    folder: Path
    rows: Mapping[str, TrafficRow]

    def has(self, row: TrafficRow) -> bool:
        """Whether the dataset has this row; its outcomes and texts may differ."""
        stored = self.rows.get(row.id)
        return stored is not None and _state_of_light(row) == _state_of_light(stored)

    def state_of(self, row: TrafficRow) -> Path | None:
        """SUMO's state at a decision, with the state of the lights beside it; None where it was not kept."""
        name = self.rows[row.id].state_file
        path = (self.folder / name).resolve()
        return path if name and path.is_file() and path.with_suffix(".json").is_file() else None


def _state_of_light(row: TrafficRow) -> dict[str, Any]:
    return row.model_dump(exclude={"prompt", "state_file", "expert_decision", "branches"})


class LiveOutcomes:
    """Simulates decisions in a pool of worker processes, each decision once. Close it after use.

    Args:
        scenarios: by name. A worker serves one scenario; it is replaced when all are in use for others.
        settings: the numbers of workers and of failures, and the longest silence of a worker: one that is silent for
            longer is killed and replaced. A single branch has half of it.
    """

    def __init__(self, scenarios: Mapping[str, LiveScenario], settings: OutcomeSettings) -> None:
        require_sumo()
        self._scenarios, self._limit_s = scenarios, settings.live_time_limit_s
        self._max_failures = settings.live_max_failures
        self._pool = _SimulatorPool(settings.live_workers)
        self._known: dict[tuple[str, bool], Future[BranchResult | None]] = {}
        self._guard = threading.Lock()
        self.failures = 0
        self.last_failure = ""

    def branches(self, row: TrafficRow) -> Branches | None:
        """Both outcomes of a decision; None where one could not be simulated. Blocking, from any thread.

        Raises:
            InputError, TooManyFailuresError: as of :meth:`outcome`.
        """
        extend, switch = self.outcome(row, True), self.outcome(row, False)
        return None if extend is None or switch is None else Branches(extend=extend, switch=switch)

    def outcome(self, row: TrafficRow, extend: bool) -> BranchResult | None:
        """The outcome of one decision; None where it failed this time. Blocking, from any thread.

        Threads that ask for the same decision share one simulation. A failure is not kept: whoever asks later has it
        simulated again.

        Raises:
            InputError: the datasets do not have the row, or not its state file.
            TooManyFailuresError: more simulations failed than are allowed.
        """
        key = (row.id, extend and row.can_extend)
        with self._guard:
            found = self._known.get(key)
            mine = found is None
            future = self._known.setdefault(key, Future())
        if not mine:
            return future.result()
        outcome = None
        try:
            outcome = self._simulated(row, extend=key[1])
        except BaseException as error:
            future.set_exception(error)
            raise
        finally:
            if outcome is None:
                with self._guard:
                    del self._known[key]
        future.set_result(outcome)
        return outcome

    def _simulated(self, row: TrafficRow, *, extend: bool) -> BranchResult | None:
        check_states(self._scenarios, [row])
        scenario = self._scenarios[row.scenario]
        job = {
            "kind": "branches",
            "options": {**scenario.options, "sumocfg": str(scenario.config.resolve()), "seed": row.seed},
            "branch_limit_s": self._limit_s / 2,
        }
        request = {
            "state": str(scenario.state_of(row)),
            "junction": row.junction_id,
            "extend": extend,
            "horizon": row.horizon,
        }
        try:
            with self._pool.worker(job, self._limit_s) as worker:
                message = worker.answer(request)
        except SimulationFailedError as error:
            message = {"failed": f"{error.what} {error.why}".strip()}
        if "outcome" in message:
            return BranchResult.model_validate(message["outcome"])
        self._count_failure(row, str(message["failed"]))
        return None

    def _count_failure(self, row: TrafficRow, why: str) -> None:
        with self._guard:
            self.failures += 1
            self.last_failure = why
            if self.failures > self._max_failures:
                raise TooManyFailuresError(
                    f"{self.failures} simulated decisions failed",
                    why=f"The last one was of row {row.id}: {why}",
                    fix="Generate the dataset again with --keep-states, or use its stored outcomes.",
                )

    def close(self) -> None:
        """End the simulations; waits for those that are in use."""
        self._pool.close()


def check_states(scenarios: Mapping[str, LiveScenario], rows: Iterable[TrafficRow]) -> None:
    """Check that rows can be simulated again.

    Raises:
        InputError: names the rows that the datasets do not have, or that have no state file.
    """
    unknown, without = [], []
    for row in rows:
        scenario = scenarios.get(row.scenario)
        if scenario is None or not scenario.has(row):
            unknown.append(row.id)
        elif scenario.state_of(row) is None:
            without.append(row.id)
    if unknown:
        raise InputError(
            f"The datasets with state files do not have these rows, or have other ones: {_names(unknown)}",
            fix="Name the dataset that the rows are of with live_dataset.",
        )
    if without:
        raise InputError(
            f"The state file is missing of {_names(without)}",
            fix="Generate the dataset again with --keep-states, or use its stored outcomes.",
        )


def _names(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


class _SimulatorPool:
    """At most ``size`` workers.

    Starting one loads a network, which takes longer than many decisions. So an idle worker serves those that wait for
    its own job first, and is replaced by one of another job only when nobody waits for it.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._idle: list[SimulationProcess] = []  # the one that was used last is at the end
        self._in_use = 0
        self._waiting: list[Mapping[str, Any]] = []  # jobs
        self._changed = threading.Condition()

    @contextmanager
    def worker(self, job: Mapping[str, Any], limit_s: float) -> Iterator[SimulationProcess]:
        """A worker with this job. One whose block ends with an error is killed."""
        worker = self._take(job)
        try:
            if worker is not None and worker.job != job:
                worker.close()
                worker = None
            worker = worker or SimulationProcess(job, limit_s)
            yield worker
        except BaseException:
            if worker is not None:
                worker.close()
            worker = None
            raise
        finally:
            with self._changed:
                self._in_use -= 1
                if worker is not None:
                    self._idle.append(worker)
                self._changed.notify_all()

    def _take(self, job: Mapping[str, Any]) -> SimulationProcess | None:
        """Wait for a worker: one with this job, one to be replaced, or None where one more may be started."""
        with self._changed:
            self._waiting.append(job)
            self._changed.wait_for(lambda: self._has_room or self._idle_for(job) is not None)
            self._waiting.remove(job)
            worker = self._idle_for(job)
            if worker is not None and worker.job != job and self._has_room:
                worker = None
            if worker is not None:
                self._idle.remove(worker)
            self._in_use += 1
            return worker

    @property
    def _has_room(self) -> bool:
        return len(self._idle) + self._in_use < self._size

    def _idle_for(self, job: Mapping[str, Any]) -> SimulationProcess | None:
        """An idle worker with this job, else the one that is idle for longest of those nobody waits for."""
        same = [worker for worker in self._idle if worker.job == job]
        spare = [worker for worker in self._idle if worker.job not in self._waiting]
        return same[-1] if same else next(iter(spare), None)

    def close(self) -> None:
        """Kill all workers, when those in use are idle."""
        with self._changed:
            self._changed.wait_for(lambda: self._in_use == 0)
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()
