"""Summaries of the lines of a rollouts file and of a fusions file.

Groups are decoded with msgspec into types that have only the fields of the summary: scaffolds, replies and log-probs
are skipped. A line that this refuses is decoded as every other reader of the project does, which takes more formats.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from engine.records import FORMAT, AnswerSource, Completion, Fusion, GroupStats, Outcome, RolloutGroup
from engine.statistics.groups import group_stats
from engine.storage.lines import Line, encode_line
from engine.storage.rollout_store import UnreadableLineError, decode_line

_Number = Annotated[float, msgspec.Meta(gt=-1e12, lt=1e12)]
_Count = Annotated[int, msgspec.Meta(gt=-(10**12), lt=10**12)]
"""No reward, number of tokens, cost or time is larger; sums and squares of such numbers are still floats."""


_NONE = msgspec.Raw(b"null")
_EMPTY = frozenset((b"null", b"[]"))


class Usage(msgspec.Struct):
    """Tokens and price of a reply, as they are stored."""

    prompt_tokens: _Count | None = 0
    completion_tokens: _Count | None = 0
    cost_usd: _Number | None = None


class _Completion(msgspec.Struct):
    usage: Usage | None = None
    latency_s: _Number | None = 0.0
    model: str | None = ""
    token_ids: msgspec.Raw = _NONE
    logprobs: msgspec.Raw = _NONE


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
    answer_source: AnswerSource | None = None


class _Stats(msgspec.Struct):
    mean: _Number
    std: _Number
    triggered: bool


class _Policy(msgspec.Struct):
    model: str | None = ""


class _Group(msgspec.Struct):
    problem_id: str
    rollouts: list[_Rollout]
    problem_text: str | None = ""
    ground_truth: str | None = ""
    timestamp: str | None = ""
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


class Place(NamedTuple):
    """Where the line of a record is.

    Args:
        line: its number, from 1.
        start, end: where it is in the file, in bytes.
        digest: hash of its text in this process, by which a changed line is recognised.
    """

    line: int
    start: int
    end: int
    digest: int


class Summary(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """What is known of a record without reading it.

    Args:
        place: of its line.
        problem_id, epoch: of its problem.
        step: its place in the run, from 0; None in files of earlier versions and of other programs.
        complete: whether it has all its rewards.
    """

    place: Place
    problem_id: str
    epoch: int
    complete: bool
    step: int | None = None

    @property
    def line(self) -> int:
        """The number of its line, from 1."""
        return self.place.line

    @property
    def key(self) -> Any:
        """A later complete record with the same key replaces this one."""
        return self.problem_id, self.epoch


class Spread(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One component in one group: mean, lowest and highest value, and the number of rollouts it was measured in."""

    mean: float
    low: float
    high: float
    measured: int

    def as_values(self) -> list[float]:
        """As many values as there were, with the same lowest and highest one."""
        return [self.low] + [self.high] * (self.measured - 1)


class GroupSummary(Summary, frozen=True, kw_only=True, gc=False, array_like=True):
    """What a start, a table and the charts need of a group.

    Args:
        problem_text: cut.
        problem: hash of the text and the truth of the problem, see :func:`problem_hash`.
        right: number of correct rollouts; ``checked`` have a verdict.
        mean, sigma: of ``r_total``; None for a group that is incomplete or without rewards.
        is_triggered: whether sigma > tau; None in files without statistics.
        outcomes, faults: their numbers, by name.
        components: reward components by name, without ``r_total``.
        latency_s: the longest of its completions.
        experiences: the number of experiences in the prompt.
        with_logprobs: number of rollouts that have token ids and log-probs.
        executed, executed_right: number of rollouts whose answer a program gave, and of correct ones among them.
    """

    problem_text: str
    problem: bytes
    timestamp: str
    rollouts: int
    right: int
    checked: int
    mean: float | None
    sigma: float | None
    is_triggered: bool | None
    outcomes: dict[str, int]
    faults: dict[str, int]
    components: dict[str, Spread]
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    latency_s: float
    experiences: int
    model: str
    with_logprobs: int
    executed: int
    executed_right: int

    @property
    def is_scored(self) -> bool:
        """Whether it has statistics."""
        return self.mean is not None

    @property
    def triggered(self) -> bool:
        """Whether sigma > tau as far as it is known."""
        return bool(self.is_triggered)

    def with_tau(self, tau: float) -> GroupSummary:
        """With ``is_triggered`` by this tau where no statistics are stored."""
        if self.is_triggered is not None or self.mean is None or self.sigma is None:
            return self
        stats = group_stats([self.mean - self.sigma, self.mean + self.sigma], tau)
        return msgspec.structs.replace(self, is_triggered=stats.triggered)


def summarise_group(line: Line) -> GroupSummary:
    """The summary of a line of a rollouts file.

    Raises:
        UnreadableLineError: the line is not a group; the message is the reason.
    """
    group = _fast(line)
    if group is None:
        try:
            group = _FAST.decode(encode_line(decode_line(line, RolloutGroup)))
        except msgspec.ValidationError as error:
            raise UnreadableLineError(
                f"a reward, a number of tokens, a cost or a time is out of range: {error}"
            ) from None
    return _summary(group, line)


def problem_hash(text: str, ground_truth: str) -> bytes:
    """By which the problem of a group is recognised."""
    return hashlib.blake2b(f"{len(text)} {text}{ground_truth}".encode(errors="replace"), digest_size=8).digest()


def _place(line: Line) -> Place:
    return Place(line.number, line.start, line.end, hash(line.text))


def _fast(line: Line) -> _Group | None:
    """The group, or None if the line has to be read the slow way."""
    if line.fault:
        return None
    try:
        if not line.text.isascii():
            line.text.decode()  # msgspec does not look into strings that it skips
        group = _FAST.decode(line.text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return group if group.problem_id and group.rollouts and (group.format or 0) <= FORMAT else None


def _summary(group: _Group, line: Line) -> GroupSummary:
    outcomes = [rollout.outcome or Outcome.OK for rollout in group.rollouts]
    faults = [rollout.fault.kind[:_MAX_NAME] for rollout in group.rollouts if rollout.fault is not None]
    complete = all(outcome.carries_reward for outcome in outcomes)
    stats = _statistics(group, complete)
    executed = [rollout.is_correct is True for rollout in group.rollouts if rollout.answer_source == "executed"]
    completions = [rollout.completion for rollout in group.rollouts if rollout.completion is not None]
    usages = [completion.usage for completion in completions if completion.usage is not None]
    costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    policy = group.policy or _Policy()
    return GroupSummary(
        place=_place(line),
        problem_id=group.problem_id,
        problem_text=(group.problem_text or "")[:MAX_TEXT],
        problem=problem_hash(group.problem_text or "", group.ground_truth or ""),
        epoch=group.epoch or 0,
        step=group.step,
        timestamp=(group.timestamp or "")[:_MAX_NAME],
        rollouts=len(group.rollouts),
        right=sum(rollout.is_correct is True for rollout in group.rollouts),
        checked=sum(rollout.is_correct is not None for rollout in group.rollouts),
        complete=complete,
        mean=None if stats is None else stats.mean,
        sigma=None if stats is None else stats.std,
        is_triggered=None if group.stats is None else group.stats.triggered,
        outcomes=dict(Counter(outcome.value for outcome in outcomes)),
        faults=dict(Counter(faults)),
        components=_components(group.rollouts),
        prompt_tokens=sum(usage.prompt_tokens or 0 for usage in usages),
        completion_tokens=sum(usage.completion_tokens or 0 for usage in usages),
        cost_usd=sum(costs) if costs else None,
        latency_s=max((completion.latency_s or 0.0 for completion in completions), default=0.0),
        experiences=max(len(rollout.experience_ids or ()) for rollout in group.rollouts),
        model=(policy.model or next((reply.model for reply in completions if reply.model), ""))[:MAX_TEXT],
        with_logprobs=sum(
            bytes(reply.token_ids) not in _EMPTY and bytes(reply.logprobs) not in _EMPTY for reply in completions
        ),
        executed=len(executed),
        executed_right=sum(executed),
    )


def _statistics(group: _Group, complete: bool) -> _Stats | GroupStats | None:
    """Mean and sigma; None for an incomplete group."""
    if group.stats is not None:
        return group.stats
    rewards = [rollout.r_total for rollout in group.rollouts if rollout.r_total is not None]
    return group_stats(rewards, 0.0) if complete and len(rewards) == len(group.rollouts) else None


def _components(rollouts: Sequence[_Rollout]) -> dict[str, Spread]:
    values: dict[str, list[float | None]] = {
        name: [getattr(rollout, name) for rollout in rollouts] for name in ("r_ans", "r_logic", "r_graph")
    }
    for rollout in rollouts:
        for long_name, value in (rollout.components or {}).items():
            name = long_name[:_MAX_NAME]
            if name in values or len(values) < _MAX_COMPONENTS:
                values.setdefault(name, []).append(value)
    return {name: spread for name, rewards in values.items() if (spread := _spread(rewards)) is not None}


def _spread(values: Sequence[float | None]) -> Spread | None:
    measured = [value for value in values if value is not None]
    if not measured:
        return None
    return Spread(sum(measured) / len(measured), min(measured), max(measured), len(measured))


class FusionSummary(Summary, frozen=True, kw_only=True, gc=False, array_like=True):
    """What the list of fusions needs of one.

    Args:
        prompt_tokens, completion_tokens, cost_usd, latency_s: of its completion; None for the price without prices.
        added: ``r_fusion`` - 0.5, half the mean lead over the best input and over the majority; None if not measured.
    """

    problem: str
    generator: str
    is_correct: bool | None
    answer: str
    total: float | None
    added: float | None
    merged: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    latency_s: float = 0.0

    @property
    def key(self) -> Any:
        """A fusion is found by its generator too."""
        return self.problem_id, self.epoch, self.generator


def _bounded(count: int) -> int:
    """A count that fits into 64 bits, whatever another program has written."""
    return max(-(10**12), min(10**12, count))


def summarise_fusion(line: Line) -> FusionSummary:
    """The summary of a line of a fusions file.

    Raises:
        UnreadableLineError: the line is not a fusion; the message is the reason.
    """
    fusion = decode_line(line, Fusion)
    added, completion = fusion.rewards.r_fusion, fusion.completion or Completion(text="")
    return FusionSummary(
        place=_place(line),
        problem_id=fusion.problem_id,
        problem=fusion.problem_text[:200],
        epoch=_bounded(fusion.epoch),
        step=None if fusion.step is None else _bounded(fusion.step),
        generator=fusion.generator_id,
        is_correct=fusion.is_correct,
        answer=(fusion.final_answer or "")[:120],
        total=fusion.rewards.r_total,
        added=None if added is None else added - 0.5,
        merged=fusion.merged or "",
        prompt_tokens=_bounded(completion.usage.prompt_tokens),
        completion_tokens=_bounded(completion.usage.completion_tokens),
        cost_usd=completion.usage.cost_usd,
        latency_s=completion.latency_s,
        complete=fusion.outcome.carries_reward,
    )
