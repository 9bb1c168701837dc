"""Policies in closed loop: SUMO runs a scenario, the policy takes every decision, traffic is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.tasks.traffic.scenarios import find_config
from engine.tasks.traffic.simulation.process import SimulationFailedError, SimulationProcess

LOCAL_POLICIES = ("max-pressure", "fixed", "extend", "switch", "random")
"""Policies that need no model. ``fixed``: the network's own programme."""

Decide = Callable[[Sequence[str]], Sequence[bool | None]]
"""Takes the state texts of the lights that need a decision at one moment and answers each: True extend, False switch,
None no readable decision (the light switches)."""


@dataclass(frozen=True)
class ClosedLoopResult:
    """Figures of one run.

    Args:
        figures: ``mean_waiting_s`` and ``mean_travel_s`` per vehicle, ``mean_queue`` (halting vehicles at the lights),
            ``throughput`` (vehicles that arrived), ``vehicles``, ``switches``, ``seconds``.
        decisions: those that ``decide`` was asked for.
        unreadable: decisions that could not be read; the light switched.
    """

    scenario: str
    policy: str
    seed: int
    figures: dict[str, float]
    decisions: int = 0
    unreadable: int = 0


def run_closed_loop(
    folder: Path,
    policy: str,
    seed: int,
    *,
    decide: Decide | None = None,
    options: Mapping[str, Any] | None = None,
    seconds: int = 0,
    limit_s: float = 120.0,
) -> ClosedLoopResult:
    """Run one scenario under one policy.

    Args:
        folder: the scenario.
        policy: one of :data:`LOCAL_POLICIES`, or any name together with ``decide``.
        seed: of SUMO: the vehicles' speeds and gaps, and the offsets of the green limits.
        decide: takes the decisions. What it raises ends the run.
        options: further :class:`engine.tasks.traffic.simulation.sumo.SimulationOptions`.
        seconds: at most so many; 0: to the scenario's end.
        limit_s: longest silence of the simulation; the time that ``decide`` takes does not count.

    Raises:
        SimulationFailedError: SUMO failed.
    """
    job = {
        "kind": "control",
        "options": {**(options or {}), "sumocfg": str(find_config(folder).resolve()), "seed": seed},
        "policy": "ask" if decide is not None else policy,
        "seconds": seconds,
    }
    asked = unreadable = 0
    with SimulationProcess(job, limit_s) as process:
        for message in process.messages():
            if "decisions" in message and decide is not None:
                answers = list(decide([each["state"] for each in message["decisions"]]))
                asked += len(answers)
                unreadable += sum(answer is None for answer in answers)
                process.send(answers)
            elif "figures" in message:
                return ClosedLoopResult(folder.resolve().name, policy, seed, message["figures"], asked, unreadable)
    raise SimulationFailedError(f"The simulation of {folder.name} ended without figures")
