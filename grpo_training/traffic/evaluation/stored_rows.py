"""Policies on stored decisions: what their decisions led to in the branches that were simulated beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from engine.errors import InputError
from engine.records import Fault
from engine.tasks.traffic.policies import local_policy
from engine.tasks.traffic.reply import Tier, TrafficReply
from engine.tasks.traffic.rewards import TrafficRewardSettings, better_branch, observation_of, regret, reward_of
from engine.tasks.traffic.rows import TrafficRow
from engine.tasks.traffic.validation import all_rows
from grpo_training.traffic.evaluation.decisions import ModelDecisions
from grpo_training.traffic.evaluation.policies import ORACLE

_WINDOW_S = 300
"""Decisions of one scenario within so many seconds share vehicles and form a cluster."""

_BATCH = 256
_REWARDS = TrafficRewardSettings()


@dataclass(frozen=True)
class RowResult:
    """One policy on one stored decision.

    Args:
        scenario: its scenario.
        cluster: its cluster, for intervals.
        regret: mean number of halting vehicles over the horizon, more than in the better branch; mean over the
            samples. An invalid reply switches.
        agreement: share of the samples that are the better branch; None where both branches are equal.
        unreadable: share of the samples without a readable decision.
        has_spread: whether the rewards of the samples differ; None with one sample.
    """

    id: str
    scenario: str
    cluster: str
    regret: float
    agreement: float | None
    unreadable: float = 0.0
    has_spread: bool | None = None


def read_dataset(path: Path) -> list[TrafficRow]:
    """The rows of a dataset file, or of all scenarios of a folder.

    Raises:
        MissingInputError: there is none.
        InputError: a row is invalid, there is none or one twice, or rows have different horizons, so that their
            figures cannot be compared.
    """
    rows = all_rows(path)
    for name, values in (
        ("horizon", {row.horizon for row in rows}),
        ("extend_seconds", {row.extend_seconds for row in rows}),
    ):
        if len(values) > 1:
            raise InputError(
                f"The rows of {path} were generated with different values of {name}: "
                f"{', '.join(map(str, sorted(values)))}",
                why="Their outcomes cannot be compared.",
                fix="Evaluate the datasets one by one.",
            )
    return rows


def share_of_ties(rows: Sequence[TrafficRow]) -> float:
    """Share of the rows whose branches are equal, so that no decision is better."""
    return fmean(better_branch(row) is None for row in rows)


def local_results(policy: str, rows: Sequence[TrafficRow], seed: int) -> list[RowResult]:
    """A baseline, or the oracle, on all rows.

    Args:
        seed: of the random policy.
    """
    if policy == ORACLE:
        decisions = [better_branch(row) is not False for row in rows]
    else:
        decide = local_policy(policy, seed)
        decisions = [decide(observation_of(row)) for row in rows]
    return [_result(row, [TrafficReply(Tier.STRICT, each)]) for row, each in zip(rows, decisions, strict=True)]


def model_results(
    model: ModelDecisions, rows: Sequence[TrafficRow], samples: int, advance: Callable[[int], None]
) -> tuple[list[RowResult], list[str]]:
    """A model on all rows.

    Args:
        advance: called with the number of rows that were asked since the last call.

    Returns:
        the results of the rows whose samples are complete, and the reasons why other rows were left out.

    Raises:
        ScaffoldError: the endpoint refuses every call, the budget is exhausted, or a whole batch failed.
    """
    results: list[RowResult] = []
    faults: list[str] = []
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        for row, answers in zip(batch, model.answers([row.prompt for row in batch], samples), strict=True):
            failed = [answer for answer in answers if isinstance(answer, Fault)]
            if failed:
                faults.append(f"{failed[0].kind}: {failed[0].message}")
            else:
                results.append(_result(row, [answer for answer in answers if isinstance(answer, TrafficReply)]))
        advance(len(batch))
        if not results:
            break  # the endpoint is unavailable
    return results, faults


def _result(row: TrafficRow, replies: Sequence[TrafficReply]) -> RowResult:
    best = better_branch(row)
    decisions = [bool(reply.extend) and row.can_extend for reply in replies]
    rewards = {reward_of(reply, row, _REWARDS).total for reply in replies}
    return RowResult(
        id=row.id,
        scenario=row.scenario,
        cluster=f"{row.scenario} at {int(row.simulation_time) // _WINDOW_S * _WINDOW_S} s",
        regret=fmean(regret(extend, row) for extend in decisions),
        agreement=None
        if best is None
        else fmean(
            reply.extend is not None and extend == best for reply, extend in zip(replies, decisions, strict=True)
        ),
        unreadable=fmean(reply.extend is None for reply in replies),
        has_spread=len(rewards) > 1 if len(replies) > 1 else None,
    )
