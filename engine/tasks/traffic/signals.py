"""A traffic light's programme as phases, and the controller that applies decisions to it. No SUMO in here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

DEFAULT_MIN_GREEN, DEFAULT_MAX_GREEN = 10, 60
"""Seconds, where the network's programme gives none."""

SHORTEST_GREEN = 5
"""No minimum green is below this, in seconds."""


@dataclass(frozen=True)
class SignalPhase:
    """One phase of a programme.

    Args:
        state: SUMO's state string, one character a link: ``G`` and ``g`` green, ``y`` yellow, ``r`` red.
        duration: seconds in the programme.
        min_green: ``minDur`` of the network; 0 or less: not given.
        max_green: ``maxDur`` of the network; 0 or less: not given.
    """

    state: str
    duration: float
    min_green: float = 0.0
    max_green: float = 0.0

    @property
    def is_green(self) -> bool:
        """Whether vehicles are let through and none is being stopped: some green and no yellow."""
        return any(sign in "Gg" for sign in self.state) and not any(sign in "yY" for sign in self.state)


@dataclass(frozen=True)
class SignalProgram:
    """What does not change of one traffic light.

    Args:
        junction: SUMO's id of the traffic light.
        phases: all phases in programme order.
        lanes: incoming lanes that a green phase serves, by phase index.
        limits: shortest and longest green in seconds, by phase index.
    """

    junction: str
    phases: tuple[SignalPhase, ...]
    lanes: Mapping[int, tuple[str, ...]]
    limits: Mapping[int, tuple[int, int]]

    @property
    def phase_order(self) -> list[int]:
        """Indices of the green phases in programme order."""
        return list(self.lanes)

    @property
    def incoming_lanes(self) -> list[str]:
        """Every lane that some green phase serves, each once."""
        return list(dict.fromkeys(lane for lanes in self.lanes.values() for lane in lanes))

    def next_green(self, phase: int) -> int:
        """The green phase after ``phase``; the order is cyclic."""
        order = self.phase_order
        return order[(order.index(phase) + 1) % len(order)]

    def clearance(self, phase: int) -> list[tuple[int, int]]:
        """The yellow and all-red phases between ``phase`` and the next green, as (index, seconds)."""
        target, steps = self.next_green(phase), []
        index = (phase + 1) % len(self.phases)
        while index != target:
            steps.append((index, max(1, round(self.phases[index].duration))))
            index = (index + 1) % len(self.phases)
        return steps


def program_of(junction: str, phases: Sequence[SignalPhase], link_lanes: Sequence[str]) -> SignalProgram | None:
    """Read a programme; None where it has fewer than two green phases, so that there is nothing to decide.

    Args:
        link_lanes: the incoming lane of each link, in the order of the state strings; empty for no link.
    """
    lanes: dict[int, tuple[str, ...]] = {}
    limits: dict[int, tuple[int, int]] = {}
    for index, phase in enumerate(phases):
        if not phase.is_green:
            continue
        served = [lane for sign, lane in zip(phase.state, link_lanes, strict=False) if sign in "Gg" and lane]
        if not served:
            continue
        lanes[index] = tuple(dict.fromkeys(served))
        shortest = phase.min_green if phase.min_green > 0 else DEFAULT_MIN_GREEN
        longest = phase.max_green if phase.max_green > 0 else DEFAULT_MAX_GREEN
        low = round(max(SHORTEST_GREEN, shortest))
        limits[index] = (low, round(max(low + 10, longest)))
    if len(lanes) < 2:
        return None
    return SignalProgram(junction, tuple(phases), lanes, limits)


@dataclass
class SignalController:
    """The state of one light under our control, in whole seconds.

    Args:
        program: the light's programme.
        phase: index of the phase that is shown.
        elapsed: seconds that the current green has been shown.
        pending: phases of the clearance that are left, as [index, seconds left]; empty while green.
    """

    program: SignalProgram
    phase: int
    elapsed: int = 0
    pending: list[list[int]] = field(default_factory=list)
    _target: int = -1

    @property
    def limits(self) -> tuple[int, int]:
        """Shortest and longest green of the current phase."""
        return self.program.limits[self.phase]

    def can_extend(self, seconds: int) -> bool:
        """Whether the current green may last ``seconds`` more."""
        return not self.pending and self.elapsed + seconds <= self.limits[1]

    def is_due(self, every: int) -> bool:
        """Whether a decision is to be taken now: at the minimum green, and every ``every`` seconds after it."""
        low = self.limits[0] if not self.pending else 0
        return not self.pending and self.elapsed >= low and (self.elapsed - low) % every == 0

    def switch(self) -> None:
        """End the green: the clearance phases follow, then the next green."""
        self._target = self.program.next_green(self.phase)
        self.pending = [list(step) for step in self.program.clearance(self.phase)]
        self._show_next()

    def tick(self) -> None:
        """One second has been simulated."""
        if not self.pending:
            self.elapsed += 1
            return
        self.pending[0][1] -= 1
        if self.pending[0][1] <= 0:
            self.pending.pop(0)
            self._show_next()

    def _show_next(self) -> None:
        if self.pending:
            self.phase = self.pending[0][0]
        else:
            self.phase, self.elapsed, self._target = self._target, 0, -1

    def to_json(self) -> dict[str, Any]:
        """The part that changes, as JSON values."""
        return {"phase": self.phase, "elapsed": self.elapsed, "pending": self.pending, "target": self._target}

    @classmethod
    def from_json(cls, program: SignalProgram, values: Mapping[str, Any]) -> Self:
        """The controller that :meth:`to_json` described."""
        pending = [list(step) for step in values["pending"]]
        return cls(program, values["phase"], values["elapsed"], pending, values["target"])


def first_controller(program: SignalProgram, shown: int) -> SignalController:
    """A controller that takes over while phase ``shown`` is on: it counts from here, at the green before or there."""
    if shown in program.lanes:
        return SignalController(program, shown)
    order = program.phase_order
    before = max((index for index in order if index < shown), default=order[-1])
    controller = SignalController(program, before)
    controller.switch()
    while controller.pending and controller.phase != shown:
        controller.pending.pop(0)
        controller._show_next()
    return controller


@dataclass(frozen=True)
class PhaseMeasure:
    """What is seen of a green phase's lanes.

    Args:
        queue: halting vehicles, mean over its lanes.
        moving: vehicles that still drive, mean over its lanes.
    """

    queue: float
    moving: float


@dataclass(frozen=True)
class Observation:
    """A light at a moment in which a decision is due."""

    junction: str
    time: float
    phase: int
    elapsed: int
    min_green: int
    max_green: int
    can_extend: bool
    phases: Mapping[int, PhaseMeasure]

    @property
    def phase_order(self) -> list[int]:
        """Green phases in programme order."""
        return list(self.phases)


def rounded(phases: Iterable[tuple[int, PhaseMeasure]]) -> dict[int, PhaseMeasure]:
    """Measures with two decimals, as they are stored and shown."""
    return {index: replace(load, queue=round(load.queue, 2), moving=round(load.moving, 2)) for index, load in phases}
