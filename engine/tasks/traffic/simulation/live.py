"""Outcomes simulated on demand from stored states, instead of read from the rows."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.tasks.traffic.rows import Outcome, TrafficRow
from engine.tasks.traffic.simulation.process import SimulationFailedError, SimulationProcess


class LiveOutcomes:
    """A pool of simulations of one scenario that gives the outcome of a decision, each once.

    Args:
        job: what the simulations do, see :func:`engine.tasks.traffic.simulation.jobs.branches`.
        dataset: the folder of ``grpo_dataset.json``; state files are relative to it.
        workers: simulations at the same time.
        limit_s: longest silence of a simulation. One that is silent for longer is killed and replaced.
        max_failures: more failed branches than that are an error.
    """

    def __init__(
        self, job: Mapping[str, Any], dataset: Path, *, workers: int, limit_s: float, max_failures: int
    ) -> None:
        self._job, self._dataset, self._limit_s, self._max_failures = job, dataset, limit_s, max_failures
        self._idle: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
        for _ in range(workers):
            self._idle.put(None)  # started when it is needed
        self._workers = workers
        self._cache: dict[tuple[str, bool], Outcome] = {}
        self._guard = threading.Lock()
        self.failures = 0
        self.last_failure = ""

    def outcome(self, row: TrafficRow, extend: bool) -> Outcome | None:
        """Simulate a decision; None where the branch failed. Blocking, from any thread.

        Raises:
            InputError: the row has no state file.
            SimulationFailedError: too many branches failed.
        """
        extend = extend and row.can_extend
        with self._guard:
            known = self._cache.get((row.id, extend))
        if known is not None:
            return known
        if not row.state_file:
            raise InputError(
                f"Row {row.id} has no state file",
                fix="Generate the dataset with --keep-states.",
            )
        request = {
            "state": str((self._dataset / row.state_file).resolve()),
            "junction": row.junction_id,
            "extend": extend,
            "horizon": row.horizon,
        }
        worker = self._idle.get()
        try:
            worker = worker or _Worker(self._job, self._limit_s)
            message = worker.answer(request)
        except SimulationFailedError as error:
            if worker is not None:
                worker.close()
            worker, message = None, {"failed": f"{error.what} {error.why}".strip()}
        finally:
            self._idle.put(worker)
        if "outcome" not in message:
            self._count_failure(str(message["failed"]))
            return None
        with self._guard:
            return self._cache.setdefault((row.id, extend), Outcome.model_validate(message["outcome"]))

    def _count_failure(self, why: str) -> None:
        with self._guard:
            self.failures += 1
            self.last_failure = why
            if self.failures > self._max_failures:
                raise SimulationFailedError(f"{self.failures} simulated branches failed", why=why)

    def close(self) -> None:
        """End the simulations; waits for those that are in use."""
        for _ in range(self._workers):
            worker = self._idle.get()
            if worker is not None:
                worker.close()


class _Worker:
    """One simulation process that answers requests in turn."""

    def __init__(self, job: Mapping[str, Any], limit_s: float) -> None:
        self._stack = ExitStack()
        self._process = self._stack.enter_context(SimulationProcess(job, limit_s))
        self._messages = self._process.messages()

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        self._process.send(request)
        message = next(self._messages, None)
        if message is None:
            raise SimulationFailedError("The simulation has ended")
        return message

    def close(self) -> None:
        """Kill the process."""
        self._stack.close()


@contextmanager
def live_outcomes(
    config: Path,
    dataset: Path,
    rows: Sequence[TrafficRow],
    options: Mapping[str, Any],
    *,
    workers: int = 2,
    limit_s: float = 60.0,
    max_failures: int = 10,
) -> Iterator[LiveOutcomes]:
    """A pool for the rows of one scenario.

    Args:
        config: the scenario's ``.sumocfg``.
        dataset: the folder of the rows' dataset.
        options: see :class:`engine.tasks.traffic.simulation.sumo.SimulationOptions`; those of the generation.
        workers, limit_s, max_failures: see :class:`LiveOutcomes`; a single branch has half of ``limit_s``.
    """
    if not rows:
        raise InputError("There are no rows to simulate")
    job = {
        "kind": "branches",
        "options": {**options, "sumocfg": str(config.resolve()), "seed": rows[0].seed},
        "branch_limit_s": limit_s / 2,
    }
    live = LiveOutcomes(job, dataset, workers=workers, limit_s=limit_s, max_failures=max_failures)
    try:
        yield live
    finally:
        live.close()
