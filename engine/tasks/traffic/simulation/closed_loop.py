"""Policies in closed loop: SUMO runs a scenario, the policy takes every decision, traffic is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.tasks.traffic.scenarios import SimulationOptions, find_config
from engine.tasks.traffic.simulation.process import simulate

LOCAL_POLICIES = ("max-pressure", "fixed")
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
    extend_seconds: int = 5,
    seconds: int = 0,
    limit_s: float = 120.0,
) -> ClosedLoopResult:
    """Run one scenario under one policy.

    Args:
        folder: the scenario.
        policy: one of :data:`LOCAL_POLICIES`, or any name together with ``decide``.
        seed: of SUMO: the vehicles' speeds and gaps.
        decide: takes the decisions. What it raises ends the run.
        extend_seconds: seconds that one extension lasts.
        seconds: at most so many; 0: to the scenario's end.
        limit_s: longest silence of the simulation; the time that ``decide`` takes does not count.

    Raises:
        SimulationFailedError: SUMO failed.
    """
    answers: list[bool | None] = []

    def answer(states: list[str] | None) -> Sequence[bool | None]:
        if states is None or decide is None:
            return ()
        given = list(decide(states))
        answers.extend(given)
        return given

    options = SimulationOptions(str(find_config(folder).resolve()), seed, extend_seconds)
    figures = simulate("control", options, policy, seconds, limit_s=limit_s, answer=answer)
    return ClosedLoopResult(folder.resolve().name, policy, seed, figures, len(answers), answers.count(None))
