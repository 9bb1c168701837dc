"""A row with outcomes that are chosen by the test."""

from engine.tasks.traffic.rows import row_of
from engine.tasks.traffic.signals import Observation, PhaseMeasure


def observation(
    queues=(3.5, 1.0, 0.0), phase=0, elapsed=16, limits=(11, 58), can_extend=True, junction="n7", time=642.0
):
    phases = {2 * number: PhaseMeasure(queue, 0.5) for number, queue in enumerate(queues)}
    return Observation(junction, time, phase, elapsed, *limits, can_extend, phases)


def outcome(queue, queue_seconds=None):
    return {
        "queue": queue,
        "phase_queues": {"0": 0.0, "2": 0.0, "4": 0.0},
        "waiting_s": float(queue),
        "queue_seconds": 20 * queue if queue_seconds is None else queue_seconds,
        "throughput": 3,
    }


def row(before=7, extend=5, switch=9, **observed):
    return row_of(
        observation(**observed),
        scenario="grid2x2",
        number=9,
        queue=before,
        branches={"extend": outcome(extend), "switch": outcome(switch)},
        seed=1,
        network="0" * 16,
        extend_seconds=5,
        horizon=20,
        state_file="",
    )
