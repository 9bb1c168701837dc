"""What the process of a simulation does: step through a scenario, simulate a branch, run a policy in closed loop.

The first argument of each function, ``tell``, sends a message to the process of the command and returns its answer; a
message of None is a sign of life. See :func:`engine.tasks.traffic.simulation.process.simulate`.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import sumolib

from engine.tasks.traffic.policies import exploring, max_pressure
from engine.tasks.traffic.rows import BranchResult, state_text
from engine.tasks.traffic.scenarios import SimulationOptions
from engine.tasks.traffic.signals import Observation
from engine.tasks.traffic.simulation.generation import GenerationSettings, StoredDecision
from engine.tasks.traffic.simulation.process import SimulationError
from engine.tasks.traffic.simulation.sumo import Simulation

_HEARTBEAT_S = 60  # simulated seconds between two signs of life

Tell = Callable[[Any], Any]


def step_through(tell: Tell, options: SimulationOptions, settings: GenerationSettings, states: Path) -> Counter[str]:
    """Run a scenario and tell a :class:`StoredDecision` for each decision that is kept.

    Returns:
        how many decisions were dropped, by reason.
    """
    simulation = Simulation(options)
    policy = exploring(max_pressure, settings.explore, options.seed)
    begin, number, dropped = simulation.now, 0, Counter[str]()
    simulation.take_over()
    while not simulation.is_over and number != settings.max_decisions:
        due = simulation.due()
        if simulation.now - begin >= settings.warmup_steps and simulation.now + settings.horizon <= simulation.end:
            for light in due:
                if number == settings.max_decisions:
                    break
                if reason := _reason_to_drop(light, options.seed):
                    dropped[reason] += 1
                    continue
                number += 1
                state = states / f"state_{light.junction}_{int(light.time)}_{number}.xml"
                state.with_suffix(".json").write_text(json.dumps(simulation.save(state)), encoding="utf-8")
                tell(StoredDecision(number, light, simulation.junction_queue(light.junction), state))
        for light in due:
            simulation.decide(light.junction, policy(light))
        simulation.step()
        if simulation.now % _HEARTBEAT_S == 0:
            tell(None)
    return dropped


def _reason_to_drop(light: Observation, seed: int) -> str | None:
    """Why a decision is not stored: nothing to choose, or few queues (kept in proportion to the phases with one)."""
    if not light.can_extend:
        return "the longest green is reached"
    share = sum(phase.queue > 0 for phase in light.phases.values()) / len(light.phases)
    drawn = random.Random(f"{seed}:keep:{light.junction}:{light.time:g}").random()  # noqa: S311 - a sample, no secret
    return None if drawn < share else "few or no queues"


def branch(
    tell: Tell, options: SimulationOptions, state: Path, junction: str, extend: bool, horizon: int
) -> BranchResult:
    """The outcome of a decision, from a state file with its ``.json`` of controllers beside it."""
    try:
        controllers = json.loads(state.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SimulationError(f"the controllers of {state} cannot be read: {error}") from error
    return Simulation(options).run_branch(state, controllers, junction, extend, horizon, max_pressure)


def control(tell: Tell, options: SimulationOptions, policy: str, seconds: int) -> dict[str, float]:
    """Run a scenario under a policy and measure.

    The policy ``fixed`` leaves the lights alone. All but ``max-pressure`` and ``fixed`` tell a list of state texts, and
    are answered by a list of True (extend), False (switch) and None (no readable decision: switch).
    """
    with tempfile.TemporaryDirectory() as folder:
        trips = Path(folder) / "trips.xml"
        more = ("--tripinfo-output", str(trips), "--tripinfo-output.write-unfinished", "--output-prefix", "")
        with closing(Simulation(options, more)) as simulation:
            begin, queue_seconds = simulation.now, 0
            if policy != "fixed":
                simulation.take_over()
            end = min(simulation.end, begin + seconds) if seconds else simulation.end
            while not simulation.is_over and simulation.now < end:
                due = simulation.due()
                answers = map(max_pressure, due) if policy == "max-pressure" else _ask(due, options, tell)
                for light, extend in zip(due, answers, strict=True):
                    simulation.decide(light.junction, bool(extend))
                simulation.step()
                queue_seconds += simulation.network_queue()
                if (simulation.now - begin) % _HEARTBEAT_S == 0:
                    tell(None)
            figures = {"seconds": simulation.now - begin, "switches": simulation.switches}
        return figures | {"mean_queue": queue_seconds / max(1.0, figures["seconds"]), **_trip_figures(trips)}


def _ask(due: list[Observation], options: SimulationOptions, tell: Tell) -> list[bool | None]:
    """The parent's decisions. It is not asked where the longest green is reached: those lights switch."""
    extendable = [light for light in due if light.can_extend]
    answers = iter(tell([state_text(light, options.extend_seconds) for light in extendable]) if extendable else ())
    return [next(answers) if light.can_extend else False for light in due]


def _trip_figures(path: Path) -> dict[str, float]:
    """Means over all vehicles that departed, also those still driving; waiting and travel time in seconds."""
    trips = [trip for trip in sumolib.xml.parse(str(path), "tripinfo") if float(trip.depart) >= 0]
    count = max(1, len(trips))
    return {
        "vehicles": len(trips),
        "throughput": sum(float(trip.arrival) >= 0 for trip in trips),
        "mean_waiting_s": sum(float(trip.waitingTime) for trip in trips) / count,
        "mean_travel_s": sum(float(trip.duration) for trip in trips) / count,
    }
