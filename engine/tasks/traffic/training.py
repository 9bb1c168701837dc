"""The reward of online training: the weighted sum of format and traffic reward."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType

from engine.errors import InputError
from engine.records import Candidate, Problem
from engine.tasks.traffic.policies import max_pressure
from engine.tasks.traffic.reply import INVALID, Tier, TrafficReply
from engine.tasks.traffic.rewards import (
    OutcomeSettings,
    TrafficRewardSettings,
    better_branch,
    observation_of,
    regret,
    row_of_answer,
    traffic_reward,
)
from engine.tasks.traffic.rows import TrafficRow
from engine.tasks.traffic.simulation.live import LiveOutcomes, LiveScenario, check_states, live_scenarios
from engine.training_reward import Pay, RewardFunction, TrainingReward

_FORMAT_SECTIONS = ("format_reward", "reward.format")
_TIERS = ("strict", "partial", "invalid")
_WEIGHTS = ("format_weight", "tsc_weight")


class TrafficTrainingReward(TrainingReward[TrafficRewardSettings, TrafficReply]):
    """``format_weight x format + tsc_weight x traffic``, from the outcomes of a completion's own row."""

    settings = TrafficRewardSettings
    spellings: Mapping[str, str] = MappingProxyType(
        {
            **{f"{section}.{tier}": tier for section in _FORMAT_SECTIONS for tier in _TIERS},
            **{f"{section}.{name}": name for section in ("reward", "reward.chain") for name in _WEIGHTS},
            "reward.chain.use_relative_baseline": "use_relative_baseline",
            **dict.fromkeys(("reward.tsc.reward_scale", "sumo.reward_scale"), "reward_scale"),
            **dict.fromkeys(("max_workers", "sumo.max_workers"), "live_workers"),
            "sumo.extend_seconds": "extend_seconds",
        }
    )
    without_effect: Mapping[str, str] = MappingProxyType(
        {
            **dict.fromkeys(
                ("format_reward.extract_regex", "reward.format.extract_regex"), "replies are read in one way"
            ),
            "reward.max_pressure": "the agreement with Max-Pressure is always logged",
            "sumo.port_range": "simulations use no ports",
            "simulation": "the dataset was simulated by `python -m grpo_training.traffic generate`, with its own flags",
        }
    )

    def pay(self, candidate: Candidate[TrafficReply], problem: Problem, settings: TrafficRewardSettings) -> Pay:
        """The reward by the outcomes that the row stores."""
        return pay_of(candidate.content or INVALID, row_of_answer(problem.answer), settings)

    def check(self, problems: Sequence[Problem], settings: TrafficRewardSettings) -> None:
        """Refuse rows that were made with another extension, and live outcomes of rows without a state file."""
        rows = [row_of_answer(problem.answer) for problem in problems]
        for row in rows:
            if settings.extend_seconds not in (None, row.extend_seconds):
                raise InputError(
                    f"Row {row.id} was made with extensions of {row.extend_seconds} s, the configuration has "
                    f"extend_seconds {settings.extend_seconds}",
                    fix="Leave extend_seconds out, or generate the dataset again with --extend-seconds.",
                )
        if settings.tsc_reward_mode == "live":
            _scenarios(rows, settings)

    @contextmanager
    def reward_function(self, problems: Sequence[Problem], settings: TrafficRewardSettings) -> Iterator[RewardFunction]:
        """:meth:`pay`; in the mode ``live`` with a pool of simulations."""
        if settings.tsc_reward_mode == "stored":
            yield functools.partial(self.pay, settings=settings)
            return
        scenarios = _scenarios([row_of_answer(problem.answer) for problem in problems], settings)
        with closing(LiveOutcomes(scenarios, settings)) as live:
            yield functools.partial(_pay_live, settings=settings, live=live)


def pay_of(reply: TrafficReply, row: TrafficRow, settings: TrafficRewardSettings) -> Pay:
    """The reward, with the tier of the reply, the regret and the agreement with the better decision.

    A reply without a decision is paid for its form only.
    """
    form = {Tier.STRICT: settings.strict, Tier.PARTIAL: settings.partial, Tier.INVALID: settings.invalid}[reply.tier]
    figures = {f"format/{tier}": float(reply.tier is tier) for tier in Tier}
    if reply.extend is None:
        return Pay(settings.format_weight * form, {"format": form}, figures, is_correct=False)
    tsc, best = traffic_reward(reply.extend, row, settings), better_branch(row)
    figures["regret"] = regret(reply.extend, row)
    figures["agreement/max_pressure"] = float(reply.extend == max_pressure(observation_of(row)))
    if best is not None:
        figures["agreement/better_branch"] = float(reply.extend == best)
    total = settings.format_weight * form + settings.tsc_weight * tsc
    return Pay(total, {"format": form, "tsc": tsc}, figures, is_correct=best is None or reply.extend == best)


def _pay_live(
    candidate: Candidate[TrafficReply], problem: Problem, *, settings: TrafficRewardSettings, live: LiveOutcomes
) -> Pay:
    """The reward by simulated outcomes; none where the simulation failed. A reply without a decision needs none."""
    reply, row = candidate.content or INVALID, row_of_answer(problem.answer)
    if reply.extend is not None:
        branches = live.branches(row)
        if branches is None:
            return Pay(None, error=f"row {row.id} could not be simulated: {live.last_failure}")
        row = row.model_copy(update={"branches": branches})
    return pay_of(reply, row, settings)


def _scenarios(rows: Sequence[TrafficRow], settings: OutcomeSettings) -> dict[str, LiveScenario]:
    names = {row.scenario for row in rows}
    scenarios = live_scenarios(Path(settings.live_dataset), Path(settings.live_scenarios_dir), names)
    check_states(scenarios, rows)
    return scenarios
