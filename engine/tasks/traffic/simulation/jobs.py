"""The jobs of a simulation process: make a dataset, simulate branches, run a policy in closed loop.

A job is a JSON object; its results are emitted as JSON objects, see :mod:`engine.tasks.traffic.simulation.worker`.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TextIO

from engine.tasks.traffic.policies import exploring, local_policy, max_pressure
from engine.tasks.traffic.rows import row_of, state_text
from engine.tasks.traffic.scenarios import network_digest
from engine.tasks.traffic.signals import Observation
from engine.tasks.traffic.simulation.forks import BRANCH_FAILED, SimulationError, forked, run_in_fork
from engine.tasks.traffic.simulation.sumo import Simulation, SimulationOptions

_HEARTBEAT_S = 60  # simulated seconds between two signs of life
_SAME_QUEUE = 1.01  # halting vehicles a lane: SUMO rounds speeds in a state, so one may be counted otherwise

Emit = Callable[[Mapping[str, Any]], None]


def run_job(job: Mapping[str, Any], emit: Emit, requests: TextIO) -> bool:
    """Run a job of any kind; False after emitting ``{"error": ...}`` if the simulation failed."""
    try:
        if job["kind"] == "generate":
            generate(job, emit)
        elif job["kind"] == "simulate":
            simulate(job, emit, requests)
        elif job["kind"] == "branches":
            branches(job, emit, requests)
        else:
            control(job, emit, requests)
    except SimulationError as error:
        emit({"error": str(error)})
        return False
    return True


def generate(job: Mapping[str, Any], emit: Emit) -> None:
    """Run a scenario and emit a row for each decision that is kept.

    The main run is a fork that waits while this process, which never steps, runs both branches in forks of its own.

    Emits: ``{"no_yellow": [junction, ...]}`` if there are any, ``{"row": ...}``, ``{"dropped": reason}`` (``why`` if a
    branch failed), ``{"time": seconds}`` and at last ``{"done": true}``.
    """
    simulation = Simulation(SimulationOptions(**job["options"]))
    if bare := [name for name, program in simulation.programs.items() if not program.has_yellow]:
        emit({"no_yellow": bare})
    network = network_digest(Path(simulation.options.sumocfg))
    with tempfile.TemporaryDirectory() as folder:
        here, there = Pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover - runs in the fork
            here.close()
            run_in_fork(lambda: _main_run(simulation, job, Path(folder), there))
        there.close()
        number = 0
        while True:
            try:
                kind, value = here.recv()
            except EOFError:
                raise SimulationError("the main run crashed") from None
            if kind == "decisions":
                for seen, queue, state in value["due"]:
                    number += 1
                    file = f"states/{Path(state).name}" if job["states_dir"] else ""
                    fields = {"number": number, "queue": queue, "network": network, "state_file": file}
                    row = _row(simulation, job, Path(state), value["controllers"], seen, emit, **fields)
                    if row is not None:
                        emit({"row": row})
                here.send("go")
            elif kind == "error":
                raise SimulationError(value)
            elif kind == "done":
                break
            else:
                emit({kind: value})
        os.waitpid(child, 0)
    emit({"done": True})


def _row(
    simulation: Simulation,
    job: Mapping[str, Any],
    state: Path,
    controllers: Any,
    seen: Observation,
    emit: Emit,
    **fields: Any,
) -> dict[str, Any] | None:
    """The row of a decision with both of its outcomes; None where a branch failed, so that the row is dropped."""
    found = {}
    for name, extend in (("extend", True), ("switch", False)):
        branch = partial(simulation.run_branch, state, controllers, seen.junction, extend, job["horizon"], max_pressure)
        try:
            found[name] = forked(branch, job["branch_limit_s"]).model_dump()
        except SimulationError as error:
            emit({"dropped": BRANCH_FAILED, "why": str(error)})
            return None
    options = simulation.options
    row = row_of(
        seen,
        scenario=job["scenario"],
        branches=found,
        seed=options.seed,
        extend_seconds=options.extend_seconds,
        horizon=job["horizon"],
        **fields,
    )
    return row.model_dump(mode="json")


def _main_run(simulation: Simulation, job: Mapping[str, Any], folder: Path, parent: Connection) -> None:
    """Step through the scenario and report to the parent; a failure of SUMO is reported too."""
    try:
        _step_through(simulation, job, folder, parent)
    except SimulationError as error:
        parent.send(("error", str(error)))


def _step_through(simulation: Simulation, job: Mapping[str, Any], folder: Path, parent: Connection) -> None:
    """Send each decision that is kept, and wait until both of its branches are known."""
    seed = simulation.options.seed
    policy = exploring(max_pressure, job["explore"], seed)
    begin, number = simulation.now, 0
    simulation.take_over()
    while not simulation.is_over:
        due = simulation.due()
        if simulation.now - begin >= job["warmup_steps"] and simulation.now + job["horizon"] <= simulation.end:
            wanted = []
            for seen in due:
                if reason := _reason_to_drop(seen, seed):
                    parent.send(("dropped", reason))
                else:
                    wanted.append(seen)
            if job["max_decisions"] is not None:
                del wanted[job["max_decisions"] - number :]
            if wanted:
                states = [_state_path(job, folder, seen, place) for place, seen in enumerate(wanted, number + 1)]
                number += len(wanted)
                controllers = simulation.save(states[0])
                if job["states_dir"]:
                    for path in states:
                        if path != states[0]:
                            path.write_bytes(states[0].read_bytes())
                        path.with_suffix(".json").write_text(json.dumps(controllers), encoding="utf-8")
                value = {
                    "due": [
                        (seen, simulation.junction_queue(seen.junction), str(path))
                        for seen, path in zip(wanted, states, strict=True)
                    ],
                    "controllers": controllers,
                }
                parent.send(("decisions", value))
                parent.recv()
                if job["max_decisions"] is not None and number >= job["max_decisions"]:
                    break
        for seen in due:
            simulation.decide(seen.junction, policy(seen))
        simulation.step()
        if simulation.now % _HEARTBEAT_S == 0:
            parent.send(("time", simulation.now))
    parent.send(("done", None))
    parent.close()


def _reason_to_drop(seen: Observation, seed: int) -> str | None:
    """Why a decision is not stored: nothing to choose, or few queues (kept in proportion to the phases with one)."""
    if not seen.can_extend:
        return "the longest green is reached"
    share = sum(each.queue > 0 for each in seen.phases.values()) / len(seen.phases)
    drawn = random.Random(f"{seed}:keep:{seen.junction}:{seen.time:g}").random()  # noqa: S311 - a sample, no secret
    return None if drawn < share else "few or no queues"


def _state_path(job: Mapping[str, Any], folder: Path, seen: Observation, number: int) -> Path:
    if not job["states_dir"]:
        return folder / "state.xml"
    return Path(job["states_dir"]) / f"state_{seen.junction}_{int(seen.time)}_{number}.xml"


def branches(job: Mapping[str, Any], emit: Emit, requests: TextIO) -> None:
    """Simulate branches from state files: one request a line, one outcome a line, until the input ends.

    A request has ``state`` (a file with its ``.json`` of controllers beside it), ``junction``, ``extend``, ``horizon``.
    The figures are those of :func:`generate` for the same state.
    """
    simulation = Simulation(SimulationOptions(**job["options"]))
    for line in requests:
        request = json.loads(line)
        state = Path(request["state"])
        try:
            controllers = json.loads(state.with_suffix(".json").read_text(encoding="utf-8"))
            decision = request["junction"], request["extend"], request["horizon"]
            branch = partial(simulation.run_branch, state, controllers, *decision, max_pressure)
            emit({"outcome": forked(branch, job["branch_limit_s"]).model_dump()})
        except (OSError, ValueError, SimulationError) as error:
            emit({"failed": str(error)})


def simulate(job: Mapping[str, Any], emit: Emit, requests: TextIO) -> None:
    """Simulate both decisions of rows without outcomes: one request a line, one answer a line.

    A request has ``row`` (the fields of ``missing_outcomes.RowWithoutOutcomes``), ``state`` and ``number``.

    Emits: ``{"row": ..., "controllers": ...}``, or ``{"dropped": reason, "why": ...}``.
    """
    simulation = Simulation(SimulationOptions(**job["options"]))
    network = network_digest(Path(simulation.options.sumocfg))
    for line in requests:
        request = json.loads(line)
        state, given = Path(request["state"]), request["row"]
        adopt = partial(
            simulation.adopt,
            state,
            given["junction_id"],
            given["simulation_time"],
            given["current_phase_id"],
            round(given["current_green_elapsed"]),
            (round(given["min_green"]), round(given["max_green"])),
        )
        try:
            seen, queue, controllers = forked(adopt, job["branch_limit_s"])
        except SimulationError as error:
            emit({"dropped": BRANCH_FAILED, "why": str(error)})
            continue
        queues = {str(index): each.queue for index, each in seen.phases.items()}
        if queues.keys() != given["phase_metrics"].keys() or any(
            abs(queues[index] - value) > _SAME_QUEUE for index, value in given["phase_metrics"].items()
        ):
            emit({"dropped": "the state has other queues than the row", "why": str(queues)})
            continue
        fields = {"number": request["number"], "queue": queue, "network": network, "state_file": ""}
        row = _row(simulation, job, state, controllers, seen, emit, **fields)
        if row is not None:
            emit({"row": row, "controllers": controllers})


def control(job: Mapping[str, Any], emit: Emit, replies: TextIO) -> None:
    """Run a scenario under a policy and measure.

    The policy ``ask`` emits ``{"decisions": [{"junction", "state"}, ...]}`` and reads one line of answers, a list of
    true (extend), false (switch) and null (no readable decision: switch); ``fixed`` leaves the lights alone.

    Emits at last ``{"figures": ...}``.
    """
    options = SimulationOptions(**job["options"])
    with tempfile.TemporaryDirectory() as folder:
        trips = Path(folder) / "trips.xml"
        more = ("--tripinfo-output", str(trips), "--tripinfo-output.write-unfinished")
        with closing(Simulation(options, more)) as simulation:
            begin, queue_seconds = simulation.now, 0
            is_free = job["policy"] == "fixed"
            policy = None if job["policy"] in ("ask", "fixed") else local_policy(job["policy"], options.seed)
            if not is_free:
                simulation.take_over()
            end = min(simulation.end, begin + job["seconds"]) if job["seconds"] else simulation.end
            while not simulation.is_over and simulation.now < end:
                due = [] if is_free else simulation.due()
                answers = _ask(due, options.extend_seconds, emit, replies) if policy is None else map(policy, due)
                for seen, extend in zip(due, answers, strict=True):
                    simulation.decide(seen.junction, bool(extend))
                simulation.step()
                queue_seconds += simulation.network_queue()
                if (simulation.now - begin) % _HEARTBEAT_S == 0:
                    emit({"time": simulation.now})
            figures = {"seconds": simulation.now - begin, "switches": simulation.switches}
        figures |= {"mean_queue": queue_seconds / max(1.0, figures["seconds"]), **_trip_figures(trips)}
    emit({"figures": figures})


def _ask(due: list[Observation], extend_seconds: int, emit: Emit, replies: TextIO) -> list[bool | None]:
    """The parent's decisions. It is not asked where the longest green is reached: those lights switch."""
    open_ones = [seen for seen in due if seen.can_extend]
    if not open_ones:
        return [False] * len(due)
    emit({"decisions": [{"junction": seen.junction, "state": state_text(seen, extend_seconds)} for seen in open_ones]})
    line = replies.readline()
    if not line:
        raise SimulationError("the process that decides has ended")
    answers = iter(json.loads(line))
    return [next(answers) if seen.can_extend else False for seen in due]


def _trip_figures(path: Path) -> dict[str, float]:
    """Means over all vehicles that departed, also those still driving; waiting and travel time in seconds."""
    waiting = travel = 0.0
    vehicles = arrived = 0
    for _, element in ElementTree.iterparse(path):  # noqa: S314 - SUMO wrote it
        if element.tag == "tripinfo" and float(element.get("depart", "-1")) >= 0:
            vehicles += 1
            arrived += float(element.get("arrival", "-1")) >= 0
            waiting += float(element.get("waitingTime", "0"))
            travel += float(element.get("duration", "0"))
        element.clear()
    count = max(1, vehicles)
    return {
        "vehicles": vehicles,
        "throughput": arrived,
        "mean_waiting_s": waiting / count,
        "mean_travel_s": travel / count,
    }
