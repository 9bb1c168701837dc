"""The reward of online training: the weighted sum of format and traffic reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from engine.contract.training_reward import Pay, TrainingReward
from engine.errors import InputError
from engine.records import Candidate, Problem
from engine.tasks.traffic.policies import max_pressure
from engine.tasks.traffic.reply import INVALID, Tier, TrafficReply
from engine.tasks.traffic.rewards import (
    TrafficRewardSettings,
    better_branch,
    observation_of,
    regret,
    reward_of,
    row_of_answer,
)
from engine.tasks.traffic.rows import TrafficRow

_TIERS = ("strict", "partial", "invalid")


class TrafficTrainingReward(TrainingReward[TrafficRewardSettings, TrafficReply]):
    """``format_weight x format + tsc_weight x traffic``, from the outcomes of a completion's own row."""

    settings = TrafficRewardSettings
    spellings: Mapping[str, str] = MappingProxyType(
        {
            **{f"format_reward.{tier}": tier for tier in _TIERS},
            **{f"reward.{name}": name for name in ("format_weight", "tsc_weight")},
            **{f"sumo.{name}": name for name in ("reward_scale", "extend_seconds")},
        }
    )
    without_effect: Mapping[str, str] = MappingProxyType(
        {
            "format_reward.extract_regex": "replies are read in one way",
            **dict.fromkeys(("max_workers", "sumo.max_workers"), "the rows store the outcomes of both decisions"),
            "sumo.port_range": "simulations use no ports",
        }
    )

    def pay(self, candidate: Candidate[TrafficReply], problem: Problem, settings: TrafficRewardSettings) -> Pay:
        """The reward by the outcomes that the row stores."""
        return pay_of(candidate.content or INVALID, row_of_answer(problem.answer), settings)

    def check(self, problems: Sequence[Problem], settings: TrafficRewardSettings) -> None:
        """Refuse rows that were made with another extension."""
        for row in (row_of_answer(problem.answer) for problem in problems):
            if settings.extend_seconds not in (None, row.extend_seconds):
                raise InputError(
                    f"Row {row.id} was made with extensions of {row.extend_seconds} s, the configuration has "
                    f"extend_seconds {settings.extend_seconds}",
                    fix="Leave extend_seconds out, or generate the dataset again with --extend-seconds.",
                )


def pay_of(reply: TrafficReply, row: TrafficRow, settings: TrafficRewardSettings) -> Pay:
    """The reward, with the tier of the reply, the regret and the agreement with the better decision."""
    paid = reward_of(reply, row, settings)
    figures = {f"format/{tier}": float(reply.tier is tier) for tier in Tier}
    if reply.extend is None:
        return Pay(paid.total, {"format": paid.format}, figures, is_correct=False)
    best = better_branch(row)
    figures["regret"] = regret(reply.extend, row)
    figures["agreement/max_pressure"] = float(reply.extend == max_pressure(observation_of(row)))
    if best is not None:
        figures["agreement/better_branch"] = float(reply.extend == best)
    parts = {"format": paid.format, "tsc": paid.tsc}
    return Pay(paid.total, parts, figures, is_correct=best is None or reply.extend == best)
