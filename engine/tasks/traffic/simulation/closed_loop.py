"""Policies in closed loop: SUMO runs a scenario, the policy takes every decision, traffic is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.tasks.traffic.scenarios import find_config
from engine.tasks.traffic.simulation.process import SimulationProcess

LOCAL_POLICIES = ("max-pressure", "fixed", "extend", "switch", "random")
"""Policies that need no model. ``fixed``: the network's own programme."""

Decide = Callable[[Sequence[str]], Sequence[bool | None]]
"""Takes state texts and answers each: True extend, False switch, None no readable decision."""


@dataclass(frozen=True)
class ClosedLoopResult:
    """Figures of one run.

    Args:
        figures: ``mean_waiting_s`` and ``mean_travel_s`` per vehicle, ``mean_queue`` (halting vehicles at the lights),
            ``throughput`` (vehicles that arrived), ``vehicles``, ``switches``, ``seconds``.
        curve: (seconds, halting vehicles) every ten seconds.
        unreadable: decisions that could not be read; the light switched.
    """

    scenario: str
    policy: str
    seed: int
    figures: dict[str, float]
    curve: list[tuple[float, int]]
    decisions: int = 0
    unreadable: int = 0


def run_closed_loop(
    folder: Path,
    policy: str,
    seed: int,
    *,
    decide: Decide | None = None,
    options: dict[str, Any] | None = None,
    seconds: int = 0,
    limit_s: float = 120.0,
) -> ClosedLoopResult:
    """Run one scenario under one policy.

    Args:
        folder: the scenario.
        policy: one of :data:`LOCAL_POLICIES`, or any name together with ``decide``.
        seed: of SUMO: other vehicles' speeds and gaps with the same routes.
        options: further :class:`engine.tasks.traffic.simulation.sumo.SimulationOptions`.
        seconds: at most so many; 0: to the scenario's end.
        limit_s: longest silence of the simulation.

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
                curve = [(float(time), int(count)) for time, count in message["curve"]]
                name = folder.resolve().name
                return ClosedLoopResult(name, policy, seed, message["figures"], curve, asked, unreadable)
    raise AssertionError("the worker ended without figures")
