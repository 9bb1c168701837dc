"""SUMO in this process, through libsumo: one network, its lights under our control, one-second steps.

libsumo holds one simulation per process. Loading a state into a simulation that has run does not restore its random
numbers: the same branch gives other queues each time. So each branch has a process that was started and never stepped
(:meth:`Simulation.run_branch`); it gives the same figures each time, also in another process on another day.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

with contextlib.redirect_stdout(io.StringIO()):  # of a warning about pyarrow, which is not used
    import libsumo

from engine.tasks.traffic.policies import Policy
from engine.tasks.traffic.rows import BranchResult
from engine.tasks.traffic.scenarios import SimulationOptions
from engine.tasks.traffic.signals import (
    Observation,
    PhaseMeasure,
    SignalController,
    SignalPhase,
    SignalProgram,
    first_controller,
    program_of,
    rounded,
)
from engine.tasks.traffic.simulation.process import SimulationError

_FOREVER = 1_000_000.0  # seconds that SUMO itself would leave a phase on
_OWN_PROGRAM = "scaffold_grpo"
_COMMENT = re.compile(rb"<!--.*?-->\s*", re.DOTALL)
_EMPTY_STATE = b' state=""'
"""SUMO writes it for an actuated light without detectors, and cannot load it."""

_LONGEST_S = 24 * 3600.0

_STATIC, _RAIL_SIGNAL, _RAIL_CROSSING, _NEMA = 0, 1, 2, 4
"""SUMO's numbers of the kinds of programmes; all others have their phases in the order of a static one."""


class Simulation:
    """A running SUMO with its controllers.

    Args:
        options: network, seed, length of an extension.
        more: further arguments of SUMO.

    The lights follow their own programmes until :meth:`take_over`.

    Raises:
        SimulationError: SUMO refuses the configuration, or no traffic light has two green phases.
    """

    def __init__(self, options: SimulationOptions, more: Sequence[str] = ()) -> None:
        self.options = options
        command = [
            *("sumo", "-c", options.sumocfg, "--seed", str(options.seed), "--step-length", "1.0"),
            *("--no-step-log", "--no-warnings", "--duration-log.disable", "--save-state.rng"),
            *more,
        ]
        try:
            libsumo.start(command)
        except libsumo.TraCIException as error:
            raise SimulationError(f"SUMO cannot load {options.sumocfg}: {error}") from error
        self._begin = self.now
        self._unsupported: list[str] = []
        self.programs = {program.junction: program for program in self._read_programs()}
        if not self.programs:
            reasons = "; ".join(self._unsupported)
            raise SimulationError(
                f"{options.sumocfg} has no traffic light with two green phases" + (f" ({reasons})" if reasons else "")
            )
        self.controllers: dict[str, SignalController] = {}
        self.switches = 0
        self._shown: dict[str, int] = {}

    @property
    def now(self) -> float:
        """Simulated time in seconds."""
        return float(libsumo.simulation.getTime())

    @property
    def end(self) -> float:
        """When the configuration ends the simulation, or a day after its begin where it does not say."""
        end = float(libsumo.simulation.getEndTime())
        return end if end > 0 else self._begin + _LONGEST_S

    @property
    def is_over(self) -> bool:
        """Whether the configured end is reached, or no vehicle drives or is still to come."""
        return self.now >= self.end or libsumo.simulation.getMinExpectedNumber() <= 0

    def take_over(self) -> None:
        """Control every light from now on; each keeps the phase that it shows."""
        self._time_all_phases()
        for junction, program in self.programs.items():
            self.controllers[junction] = first_controller(program, libsumo.trafficlight.getPhase(junction))
            self._show(junction)

    def step(self) -> None:
        """Simulate one second."""
        try:
            libsumo.simulationStep()
        except libsumo.TraCIException as error:
            raise SimulationError(f"SUMO failed at {self.now:g} s: {error}") from error
        for junction, controller in self.controllers.items():
            shown = controller.phase
            controller.tick()
            if controller.phase != shown:
                self._show(junction)
        if not self.controllers:
            self._count_switches()

    def _count_switches(self) -> None:
        """Count the greens that have ended while the lights follow their own programmes."""
        for junction, program in self.programs.items():
            phase = int(libsumo.trafficlight.getPhase(junction))
            before = self._shown.get(junction, phase)
            self.switches += before != phase and before in program.lanes
            self._shown[junction] = phase

    def due(self) -> list[Observation]:
        """The lights that need a decision now, each as it is seen, in SUMO's order."""
        every = self.options.extend_seconds
        return [self.observe(junction) for junction, controller in self.controllers.items() if controller.is_due(every)]

    def decide(self, junction: str, extend: bool) -> None:
        """Apply a decision. An extension beyond the longest green switches."""
        controller = self.controllers[junction]
        if extend and controller.can_extend(self.options.extend_seconds):
            return  # it stays green until the next decision is due
        controller.switch()
        self.switches += 1
        self._show(junction)

    def observe(self, junction: str) -> Observation:
        """What a decision about a light may look at."""
        controller, program = self.controllers[junction], self.programs[junction]
        low, high = controller.limits
        return Observation(
            junction=junction,
            time=self.now,
            phase=controller.phase,
            elapsed=controller.elapsed,
            min_green=low,
            max_green=high,
            can_extend=controller.can_extend(self.options.extend_seconds),
            phases=rounded((index, _measure(lanes)) for index, lanes in program.lanes.items()),
        )

    def save(self, path: Path) -> dict[str, Any]:
        """Write SUMO's state to ``path``; returns the controllers as JSON values."""
        libsumo.simulation.saveState(str(path))
        content = _COMMENT.sub(b"", path.read_bytes(), count=1)  # the date and the folders of this run
        path.write_bytes(content.replace(_EMPTY_STATE, b""))
        return {junction: controller.to_json() for junction, controller in self.controllers.items()}

    def run_branch(
        self,
        state: Path,
        controllers: Mapping[str, Mapping[str, Any]],
        junction: str,
        extend: bool,
        horizon: int,
        after: Policy,
    ) -> BranchResult:
        """Load a state, take one decision, go on under a policy, and measure. For a process that never stepped.

        Args:
            state: the file that :meth:`save` wrote.
            controllers: what :meth:`save` returned.
            junction: whose decision it is, and where is measured.
            extend: the decision.
            horizon: seconds to simulate.
            after: takes every later decision, also of the other lights.
        """
        self._time_all_phases()  # the state names the programmes that were running
        try:
            libsumo.simulation.loadState(str(state))
        except libsumo.TraCIException as error:
            raise SimulationError(f"SUMO cannot load {state}: {error}") from error
        if controllers.keys() != self.programs.keys():
            raise SimulationError(f"{state} is of another network than {self.options.sumocfg}")
        for name, values in controllers.items():
            self.controllers[name] = SignalController.from_json(self.programs[name], values)
            self._show(name)
        program = self.programs[junction]
        lanes = program.incoming_lanes
        due = self.due()
        if junction not in [light.junction for light in due]:
            raise SimulationError(f"no decision is due at {junction} in {state}")
        for light in due:
            self.decide(light.junction, extend if light.junction == junction else after(light))
        before, queue_seconds, gone = _vehicles(lanes), 0, 0
        for second in range(horizon):
            if second:
                for light in self.due():
                    self.decide(light.junction, after(light))
            self.step()
            here = _vehicles(lanes)
            departed = before - here
            gone += len(departed - set(libsumo.simulation.getStartingTeleportIDList()))
            before = here
            queue_seconds += sum(map(_halting, lanes))
        return BranchResult(
            queue=sum(map(_halting, lanes)),
            phase_queues={
                str(index): load.queue
                for index, load in rounded((index, _measure(served)) for index, served in program.lanes.items()).items()
            },
            waiting_s=round(sum(libsumo.lane.getWaitingTime(lane) for lane in lanes), 2),
            queue_seconds=queue_seconds,
            throughput=gone,
        )

    def junction_queue(self, junction: str) -> int:
        """Halting vehicles on all incoming lanes of one light."""
        return sum(map(_halting, self.programs[junction].incoming_lanes))

    def network_queue(self) -> int:
        """Halting vehicles on all incoming lanes of the lights that are controlled."""
        return sum(_halting(lane) for program in self.programs.values() for lane in program.incoming_lanes)

    def close(self) -> None:
        """End SUMO; a file that it was told to write is complete after it."""
        libsumo.close()

    def _show(self, junction: str) -> None:
        libsumo.trafficlight.setPhase(junction, self.controllers[junction].phase)
        libsumo.trafficlight.setPhaseDuration(junction, _FOREVER)

    def _read_programs(self) -> list[SignalProgram]:
        programs = []
        for junction in libsumo.trafficlight.getIDList():
            logic = _running_logic(junction)
            reason = "it has no programme" if logic is None else _unsupported(logic)
            if logic is None or reason:
                self._unsupported.append(f"{junction}: {reason}")
                continue
            lanes = [links[0][0] if links else "" for links in libsumo.trafficlight.getControlledLinks(junction)]
            program = program_of(junction, [_phase(phase) for phase in logic.phases], lanes)
            if program is not None:
                programs.append(program)
        return programs

    def _time_all_phases(self) -> None:
        """Replace actuated programmes, which would end phases themselves, by static copies."""
        for junction in self.programs:
            logic = _running_logic(junction)
            if logic.type != _STATIC:
                phases = [libsumo.trafficlight.Phase(phase.duration, phase.state) for phase in logic.phases]
                copy = libsumo.trafficlight.Logic(_OWN_PROGRAM, _STATIC, logic.currentPhaseIndex, phases)
                libsumo.trafficlight.setProgramLogic(junction, copy)


def _running_logic(junction: str) -> Any:
    running = libsumo.trafficlight.getProgram(junction)
    logics = libsumo.trafficlight.getAllProgramLogics(junction)
    return next((logic for logic in logics if logic.programID == running), None)


def _unsupported(logic: Any) -> str:
    """Why a programme cannot be controlled as a cycle of phases; empty if it can."""
    if logic.type in (_RAIL_SIGNAL, _RAIL_CROSSING):
        return "it controls trains"
    if logic.type == _NEMA:
        return "a NEMA programme shows several phases at a time"
    for index, phase in enumerate(logic.phases):
        if phase.next and tuple(phase.next) != ((index + 1) % len(logic.phases),):
            return f"phase {index} is not followed by the next phase (attribute 'next')"
    return ""


def _phase(phase: Any) -> SignalPhase:
    """SUMO gives the duration as both limits where the network has none."""
    if phase.minDur == phase.maxDur == phase.duration:
        return SignalPhase(phase.state, phase.duration)
    return SignalPhase(phase.state, phase.duration, phase.minDur, phase.maxDur)


def _measure(lanes: Sequence[str]) -> PhaseMeasure:
    halting = sum(map(_halting, lanes))
    there = sum(int(libsumo.lane.getLastStepVehicleNumber(lane)) for lane in lanes)
    return PhaseMeasure(halting / len(lanes), (there - halting) / len(lanes))


def _halting(lane: str) -> int:
    return int(libsumo.lane.getLastStepHaltingNumber(lane))


def _vehicles(lanes: Sequence[str]) -> set[str]:
    return {vehicle for lane in lanes for vehicle in libsumo.lane.getLastStepVehicleIDs(lane)}
