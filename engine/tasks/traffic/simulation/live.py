"""Outcomes simulated on demand from stored states, instead of read from the rows."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from engine.errors import InputError
from engine.tasks.traffic.rows import Outcome, TrafficRow
from engine.tasks.traffic.simulation.process import SimulationFailedError, SimulationProcess


class LiveOutcomes:
    """A pool of simulations of one scenario that gives the outcome of a decision, each once.

    Args:
        processes: the pool.
        dataset: the folder of ``grpo_dataset.json``; state files are relative to it.
        max_failures: more failed branches than that end the training.
    """

    def __init__(self, processes: Sequence[SimulationProcess], dataset: Path, max_failures: int) -> None:
        self._idle: queue.SimpleQueue[tuple[SimulationProcess, Iterator[dict[str, object]]]] = queue.SimpleQueue()
        for process in processes:
            self._idle.put((process, process.messages()))
        self._dataset, self._max_failures = dataset, max_failures
        self._cache: dict[tuple[str, bool], Outcome] = {}
        self._guard = threading.Lock()
        self.failures = 0

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
                fix="Generate the dataset with --keep-states, or use stored outcomes.",
            )
        process, messages = self._idle.get()
        try:
            process.send(
                {
                    "state": str((self._dataset / row.state_file).resolve()),
                    "junction": row.junction_id,
                    "extend": extend,
                    "horizon": row.horizon,
                }
            )
            message = next(messages, None)
        finally:
            self._idle.put((process, messages))
        with self._guard:
            if message is None or "outcome" not in message:
                self.failures += 1
                if self.failures > self._max_failures:
                    why = "the simulation has ended" if message is None else str(message.get("failed"))
                    raise SimulationFailedError(f"{self.failures} simulated branches failed", why=why)
                return None
            return self._cache.setdefault((row.id, extend), Outcome.model_validate(message["outcome"]))


@contextmanager
def live_outcomes(
    config: Path,
    dataset: Path,
    rows: Sequence[TrafficRow],
    options: dict[str, object],
    *,
    workers: int = 2,
    limit_s: float = 60.0,
    max_failures: int = 10,
) -> Iterator[LiveOutcomes]:
    """Start the pool for the rows of one scenario.

    Args:
        config: the scenario's ``.sumocfg``.
        dataset: the folder of the rows' dataset.
        options: see :class:`engine.tasks.traffic.simulation.sumo.SimulationOptions`; those of the generation.
    """
    if not rows:
        raise InputError("There are no rows to simulate")
    job = {
        "kind": "branches",
        "options": {**options, "sumocfg": str(config.resolve()), "seed": rows[0].seed},
        "branch_limit_s": limit_s / 2,
    }
    with ExitStack() as stack:
        processes = [stack.enter_context(SimulationProcess(job, limit_s)) for _ in range(workers)]
        yield LiveOutcomes(processes, dataset, max_failures)
