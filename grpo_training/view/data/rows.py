"""A summary of each line of a rollouts file.

Lines are decoded with msgspec into types that have only the fields of the summary: scaffolds, replies and log-probs are
skipped. A line that this refuses is decoded as every other reader of the project does, which takes more formats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec

from engine.records import FORMAT, Outcome, RolloutGroup
from engine.statistics.groups import group_stats
from engine.storage.lines import Line
from engine.storage.rollout_store import UnreadableLineError, decode_line
from grpo_training.view.data.file_index import Summary

_Number = Annotated[float, msgspec.Meta(gt=-1e12, lt=1e12)]
_Count = Annotated[int, msgspec.Meta(gt=-(10**12), lt=10**12)]
"""No reward, number of tokens, cost or time is larger; sums and squares of such numbers are still floats."""


class Usage(msgspec.Struct):
    """Tokens and price of a reply, as they are stored."""

    prompt_tokens: _Count | None = 0
    completion_tokens: _Count | None = 0
    cost_usd: _Number | None = None


class _Completion(msgspec.Struct):
    usage: Usage | None = None
    latency_s: _Number | None = 0.0
    model: str | None = ""


class _Fault(msgspec.Struct):
    kind: str


class _Rollout(msgspec.Struct):
    is_correct: bool | None = None
    r_ans: _Number | None = None
    r_logic: _Number | None = None
    r_graph: _Number | None = None
    r_total: _Number | None = None
    components: dict[str, _Number | None] | None = None
    outcome: Outcome | None = None
    fault: _Fault | None = None
    completion: _Completion | None = None
    experience_ids: list[str] | None = None


class _Stats(msgspec.Struct):
    mean: _Number
    std: _Number
    triggered: bool


class _Policy(msgspec.Struct):
    model: str | None = ""
    library_version: str | None = ""


class _Group(msgspec.Struct):
    problem_id: str
    rollouts: list[_Rollout]
    problem_text: str | None = ""
    timestamp: str | None = ""
    generator_id: str | None = ""
    task: str | None = ""
    epoch: _Count | None = 0
    step: _Count | None = None
    format: int | None = 0
    policy: _Policy | None = None
    stats: _Stats | None = None


_FAST = msgspec.json.Decoder(_Group)

MAX_TEXT = 2000
"""Characters of a problem that a summary keeps, for the search."""
_MAX_NAME = 80
_MAX_COMPONENTS = 40


class Spread(msgspec.Struct, frozen=True):
    """One component in one group: mean, lowest and highest value, and the number of rollouts it was measured in."""

    mean: float
    low: float
    high: float
    measured: int

    def as_values(self) -> list[float]:
        """As many values as there were, with the same lowest and highest one."""
        return [self.low] + [self.high] * (self.measured - 1)


class GroupSummary(Summary, frozen=True, kw_only=True):
    """What a table and the charts need of a group.

    Args:
        right: number of correct rollouts; ``checked`` have a verdict.
        mean, sigma: of ``r_total``; None for an incomplete group.
        triggered: whether sigma > tau.
        outcomes, faults: their numbers, by name.
        components: reward components by name, without ``r_total``.
        latency_s: the longest of its completions.
        experiences: the number of experiences in the prompt.
    """

    problem_text: str
    generator_id: str
    task: str
    timestamp: str
    rollouts: int
    right: int
    checked: int
    mean: float | None
    sigma: float | None
    triggered: bool
    outcomes: dict[str, int]
    faults: dict[str, int]
    components: dict[str, Spread]
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    latency_s: float
    experiences: int
    library_version: str
    model: str


def summarise(line: Line, start: int, end: int, tau: float, texts: dict[str, str]) -> GroupSummary:
    """The summary of a line.

    Args:
        line: of a rollouts file.
        start, end: where it is in the file.
        tau: for groups without stored statistics.
        texts: texts of earlier lines; equal ones are kept once.

    Raises:
        UnreadableLineError: the line is not a group; the message is the reason.
    """
    group = _fast(line)
    if group is None:
        record = decode_line(line, RolloutGroup)
        try:
            group = msgspec.convert(record, _Group, from_attributes=True)
        except msgspec.ValidationError as error:
            raise UnreadableLineError(
                f"a reward, a number of tokens, a cost or a time is out of range: {error}"
            ) from None
    return _summary(group, line.number, start, end, tau, lambda text: _shared(texts, text))


def _shared(texts: dict[str, str], text: str | None) -> str:
    """The text, cut, as the object that an equal one was kept as."""
    cut = (text or "")[:MAX_TEXT]
    return texts.setdefault(cut, cut)


def _fast(line: Line) -> _Group | None:
    """The group, or None if the line has to be read the slow way."""
    if line.fault or not _is_utf8(line.text):  # msgspec does not look into strings that it skips
        return None
    try:
        group = _FAST.decode(line.text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return group if group.problem_id and group.rollouts and (group.format or 0) <= FORMAT else None


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _summary(
    group: _Group, number: int, start: int, end: int, tau: float, shared: Callable[[str | None], str]
) -> GroupSummary:
    outcomes: dict[str, int] = {}
    faults: dict[str, int] = {}
    for rollout in group.rollouts:
        name = (rollout.outcome or Outcome.OK).value
        outcomes[name] = outcomes.get(name, 0) + 1
        if rollout.fault is not None:
            kind = rollout.fault.kind[:_MAX_NAME]
            faults[kind] = faults.get(kind, 0) + 1
    mean, sigma, triggered = _statistics(group, tau)
    completions = [rollout.completion for rollout in group.rollouts if rollout.completion is not None]
    usages = [completion.usage for completion in completions if completion.usage is not None]
    costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    policy = group.policy or _Policy()
    return GroupSummary(
        line=number,
        start=start,
        end=end,
        problem_id=group.problem_id,
        problem_text=shared(group.problem_text),
        generator_id=shared(group.generator_id),
        task=shared(group.task),
        epoch=group.epoch or 0,
        step=group.step,
        timestamp=(group.timestamp or "")[:_MAX_NAME],
        rollouts=len(group.rollouts),
        right=sum(rollout.is_correct is True for rollout in group.rollouts),
        checked=sum(rollout.is_correct is not None for rollout in group.rollouts),
        complete=mean is not None,
        mean=mean,
        sigma=sigma,
        triggered=triggered,
        outcomes=outcomes,
        faults=faults,
        components=_components(group.rollouts),
        prompt_tokens=sum(usage.prompt_tokens or 0 for usage in usages),
        completion_tokens=sum(usage.completion_tokens or 0 for usage in usages),
        cost_usd=sum(costs) if costs else None,
        latency_s=max((completion.latency_s or 0.0 for completion in completions), default=0.0),
        experiences=max(len(rollout.experience_ids or ()) for rollout in group.rollouts),
        library_version=shared(policy.library_version),
        model=shared(policy.model or next((one.model for one in completions if one.model), "")),
    )


def _statistics(group: _Group, tau: float) -> tuple[float | None, float | None, bool]:
    """Mean, sigma and trigger; None, None, False for an incomplete group."""
    if group.stats is not None:
        return group.stats.mean, group.stats.std, group.stats.triggered
    rewards = [rollout.r_total for rollout in group.rollouts if rollout.r_total is not None]
    if len(rewards) < len(group.rollouts) or not all(
        (rollout.outcome or Outcome.OK).carries_reward for rollout in group.rollouts
    ):
        return None, None, False
    stats = group_stats(rewards, tau)
    return stats.mean, stats.std, stats.triggered


def _components(rollouts: Sequence[_Rollout]) -> dict[str, Spread]:
    values: dict[str, list[float | None]] = {
        "r_ans": [rollout.r_ans for rollout in rollouts],
        "r_logic": [rollout.r_logic for rollout in rollouts],
        "r_graph": [rollout.r_graph for rollout in rollouts],
    }
    for rollout in rollouts:
        for long_name, value in (rollout.components or {}).items():
            name = long_name[:_MAX_NAME]
            if name in values or len(values) < _MAX_COMPONENTS:
                values.setdefault(name, []).append(value)
    return {name: spread for name, found in values.items() if (spread := _spread(found)) is not None}


def _spread(values: Sequence[float | None]) -> Spread | None:
    measured = [value for value in values if value is not None]
    if not measured:
        return None
    return Spread(sum(measured) / len(measured), min(measured), max(measured), len(measured))
