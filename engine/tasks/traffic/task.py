"""The task: extend the current green or switch, judged by what SUMO measured after both decisions."""

from __future__ import annotations

import atexit
import json
import math
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError

from engine.errors import InputError
from engine.records import Candidate, Completion, DisplayBlock, Fault, Outcome, Problem, first_fault
from engine.task import Measurement, Task
from engine.tasks.traffic import ROW_FIELDS
from engine.tasks.traffic.policies import max_pressure
from engine.tasks.traffic.reply import Tier, TrafficReply, read_reply
from engine.tasks.traffic.rewards import OutcomeSettings, after, better_branch, observation_of, regret, row_of_answer
from engine.tasks.traffic.rows import Branches, TrafficRow, crossing_id, moment
from engine.tasks.traffic.simulation.live import LiveOutcomes, live_scenarios
from engine.tasks.traffic.training import TrafficTrainingReward

_GAIN_SCALE = 10.0  # halting vehicles, as ``reward_scale`` of the training reward
_FORMAT = {Tier.STRICT: 1.0, Tier.PARTIAL: 0.25, Tier.INVALID: 0.0}

_SCHEMA: dict[str, Any] = {
    "title": "decision",
    "type": "object",
    "properties": {"extend": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["extend"],
    "additionalProperties": False,
}


class TrafficTask(Task[TrafficReply]):
    """Decisions of a traffic light.

    ``r_ans`` is 1 for the better of the two stored branches (for either, where both ended alike); ``r_tsc`` rises from
    0.5 to 1 with what it saves over the other branch; ``r_format`` pays the form. The worse branch earns nothing, as
    there are only two and a fixed reply takes the better one half of the time. The truth of a problem is its row as
    JSON text, so that cached groups can be scored again without the dataset.

    Args:
        options: where the outcomes of the decisions come from; by default they are those that the row stores.
    """

    name = "traffic"
    row_fields = ROW_FIELDS
    reward_weights: Mapping[str, float] = MappingProxyType({"r_ans": 0.5, "r_tsc": 0.4, "r_format": 0.1})
    answer_components = frozenset({"r_ans", "r_tsc"})
    reply_schema = _SCHEMA
    reply_description = 'one JSON object, {"extend": "yes"} or {"extend": "no"}'
    training_reward = TrafficTrainingReward()

    def __init__(self, options: OutcomeSettings | None = None) -> None:
        self._options = options or OutcomeSettings()
        self._live: LiveOutcomes | None = None
        self._guard = threading.Lock()

    def problem_from_row(self, row: Mapping[str, Any], where: str) -> Problem:
        """A row of ``grpo_dataset.json``."""
        try:
            checked = TrafficRow.model_validate(row)
        except ValidationError as error:
            if "branches" not in row:
                raise InputError(
                    f"{where}: the row has no outcomes (branches)",
                    why="Decisions are scored by what SUMO measured after both of them.",
                    fix="Make rows with outcomes: python -m grpo_training.traffic generate --all",
                ) from None
            raise InputError(f"{where}: {first_fault(error)}") from None
        answer = json.dumps(checked.model_dump(mode="json", exclude={"prompt", "state_file", "expert_decision"}))
        return Problem(id=checked.id, text=checked.prompt, answer=answer, task=self.name)

    def parse(self, completion: Completion, problem: Problem) -> Candidate[TrafficReply]:
        """Read the decision; a reply without one is a model fault."""
        reply = read_reply(completion.text)
        if reply.tier is Tier.INVALID:
            fault = Fault(kind="no_decision", message='there is no {"extend": "yes"} or {"extend": "no"} in it')
            return Candidate(outcome=Outcome.MODEL_FAULT, text=completion.text, fault=fault, content=reply)
        return Candidate(outcome=Outcome.OK, text=completion.text, stated_answer=reply.decision, content=reply)

    def evaluate(self, candidate: Candidate[TrafficReply], problem: Problem) -> Measurement:
        """Score the decision with the outcomes of both branches: those of the row, or simulated ones."""
        reply = candidate.content
        if reply is None or reply.extend is None:
            return Measurement(
                components={"r_ans": 0.0, "r_tsc": 0.0, "r_format": 0.0},
                is_correct=False,
                outcome=Outcome.MODEL_FAULT,
                fault=candidate.fault,
                detail={"tier": Tier.INVALID},
            )
        row = row_of_answer(problem.answer)
        if self._options.tsc_reward_mode == "live":
            branches = self._simulated(row)
            if branches is None:
                fault = Fault(kind="simulation_failed", message="the decision could not be simulated")
                return Measurement({}, None, outcome=Outcome.INFRA_FAULT, fault=fault, detail={"why": fault.message})
            row = row.model_copy(update={"branches": branches})
        gain = after(not reply.extend, row) - after(reply.extend, row)
        is_correct = gain >= 0
        components = {"r_ans": 1.0, "r_tsc": (1 + math.tanh(gain / _GAIN_SCALE)) / 2, "r_format": _FORMAT[reply.tier]}
        return Measurement(
            components=components if is_correct else dict.fromkeys(components, 0.0),
            is_correct=is_correct,
            answer=reply.decision,
            answer_source="stated",
            remarks=[_outcomes_text(row)],
            detail={
                "tier": str(reply.tier),
                "regret": regret(reply.extend, row),
                "max_pressure": "yes" if max_pressure(observation_of(row)) else "no",
            },
        )

    def _simulated(self, row: TrafficRow) -> Branches | None:
        """Both outcomes from simulations; None where one failed. They are started at the first call.

        Raises:
            InputError: there is no dataset with the row and its state file.
            TooManyFailuresError: more simulations failed than the options allow.
        """
        with self._guard:
            if self._live is None:
                paths = Path(self._options.live_dataset), Path(self._options.live_scenarios_dir)
                self._live = LiveOutcomes(live_scenarios(*paths), self._options)
                atexit.register(self._live.close)
        return self._live.branches(row)

    def re_ask_reason(self, candidate: Candidate[TrafficReply]) -> str | None:
        """A reply without a decision may be sent again."""
        return candidate.fault.message if candidate.fault is not None else None

    def display(
        self, candidate: Candidate[TrafficReply], problem: Problem, detail: Mapping[str, Any], folder: Path
    ) -> Sequence[DisplayBlock]:
        """The queues at the junction: when the decision was due, and at the end of both branches."""
        try:
            row = row_of_answer(problem.answer)
        except (TypeError, ValueError):  # the record of another program, or a damaged one
            return []
        branches = (row.branches.extend, row.branches.switch)
        rows: list[tuple[str, ...]] = [("phase", "queue now", "after extend", "after switch")]
        for phase in map(str, row.phase_order):
            queues = (row.phase_metrics[phase], *(branch.phase_queues.get(phase) for branch in branches))
            green = " (green)" if phase == str(row.current_phase_id) else ""
            rows.append((phase + green, *("" if queue is None else f"{queue:g}" for queue in queues)))
        rows.append(("halting vehicles", str(row.queue), *(str(branch.queue) for branch in branches)))
        rows.append(("mean over the horizon", "", f"{after(True, row):.1f}", f"{after(False, row):.1f}"))
        rows.append(("waiting time (s)", "", *(f"{branch.waiting_s:g}" for branch in branches)))
        rows.append(("vehicles that left", "", *(str(branch.throughput) for branch in branches)))
        return [DisplayBlock("queues of both branches", "table", _outcomes_text(row), rows)]

    @property
    def check_options(self) -> OutcomeSettings:
        """Where the outcomes of the decisions come from."""
        return self._options

    def with_check_options(self, options: BaseModel) -> TrafficTask:
        """This task with outcomes from elsewhere."""
        return TrafficTask(OutcomeSettings.model_validate(options.model_dump()))

    def truth(self, problem: Problem) -> str:
        """Both outcomes in words."""
        return _outcomes_text(row_of_answer(problem.answer))

    def gold_reply(self, problem: Problem) -> str | None:
        """The better decision; an extension where both branches are equal."""
        return json.dumps({"extend": "no" if better_branch(row_of_answer(problem.answer)) is False else "yes"})

    def leaks_answer(self, content: str, problem: Problem) -> bool:
        """An experience that names the junction or the moment of its problem is about that state alone."""
        row = row_of_answer(problem.answer)
        names = crossing_id(row.junction_id), moment(row.simulation_time)
        return any(re.search(rf"(?<!\d){name}(?!\d)", content) for name in names)


def _outcomes_text(row: TrafficRow) -> str:
    best = better_branch(row)
    better = "both are equal" if best is None else f'the better decision is "{"yes" if best else "no"}"'
    return (
        f"mean number of halting vehicles in the next {row.horizon} s: {after(True, row):.1f} with an extension, "
        f"{after(False, row):.1f} with a switch ({row.queue} at the decision); {better}"
    )


TASK = TrafficTask()
