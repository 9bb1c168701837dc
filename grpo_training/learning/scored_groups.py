"""Scored groups: rollouts as the cache stores them, and groups as the loop and the analyst see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from engine.errors import ConfigurationError
from engine.experience.events import GroupTrial
from engine.experience.lot import HALVES, difference
from engine.records import (
    Candidate,
    Completion,
    Experience,
    Fusion,
    GroupStats,
    Half,
    Problem,
    Rewards,
    Rollout,
    RolloutGroup,
)
from engine.reward_evaluator import Baseline, Scored
from engine.statistics.groups import group_stats
from engine.storage.summaries import GroupSummary
from engine.task import Task
from grpo_training.agents.analyst import Attempt
from grpo_training.agents.chat import ReadReply
from grpo_training.cli.progress import GroupLine

ReplyT = TypeVar("ReplyT")

_ATTEMPT_CHARS = 6000
"""The analyst sees at most this many characters of an attempt."""


@dataclass(frozen=True)
class ScoredGroup:
    """A complete group of rollouts or fusions.

    Args:
        new_records: what the cache does not have yet of it.
        attempts: the members as the analyst sees them.
        shown: what is shown of it.
        components: name -> values of a reward component.
        stats: mean, standard deviation and advantages of ``r_total``.
        experience_ids: the experiences in its prompts.
        is_kept: whether an earlier start has stored and shown it.
        trial: what the group measures of the experiences in its two prompts; None: it has one prompt.
    """

    new_records: Sequence[RolloutGroup | Fusion]
    attempts: list[Attempt]
    shown: GroupLine
    components: Mapping[str, Sequence[float | None]]
    stats: GroupStats
    experience_ids: list[str]
    is_kept: bool
    trial: GroupTrial | None = None


@dataclass(frozen=True)
class Step:
    """One problem in one epoch.

    Args:
        number: identifies it in the library's log; the same at every start.
        problem: the problem.
        epoch: the pass over the problems.
        stored: its group, if earlier starts have completed it.
        read: reads the group where ``stored`` has its figures only; None if it cannot be read.
        inputs: of the critic: each generator's group.
        fusions: of the critic: the fusions that are stored, by generator.
    """

    number: int
    problem: Problem
    epoch: int = 0
    stored: ScoredGroup | None = None
    read: Callable[[], ScoredGroup | None] | None = None
    inputs: Mapping[str, RolloutGroup] = field(default_factory=dict)
    fusions: Mapping[str, Fusion] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer(Generic[ReplyT]):
    """What a prompt has brought: a candidate, which has no score yet.

    Args:
        candidate: as the task read it.
        reply: that it was read from.
        experiences: those in its prompt.
        half: which of the two prompts it answers; None: there is one.
        baseline: that a fusion is compared with.
    """

    candidate: Candidate
    reply: ReplyT
    experiences: Sequence[Experience]
    half: Half | None
    baseline: Baseline | None = None


def rollout_from(
    task: Task,
    rollout_id: int,
    answer: ReadReply[Candidate],
    score: Scored,
    experience_ids: list[str],
    prompt_half: Half | None = None,
) -> Rollout:
    """The record of one scored answer; ``prompt_half`` is the prompt that it answers, if there are two."""
    candidate, rewards = score.candidate, score.rewards
    return Rollout(
        rollout_id=rollout_id,
        scaffold=task.to_record(candidate),
        answer=score.answer,
        is_correct=score.is_correct,
        r_ans=rewards.r_ans,
        r_logic=rewards.r_logic,
        r_graph=rewards.r_graph,
        r_total=total_of(rewards),
        components=rewards.components,
        outcome=score.outcome,
        fault=score.fault,
        completion=answer.reply.completion,
        answer_source=score.answer_source,
        stated_answer=candidate.stated_answer,
        repairs=[
            *candidate.repairs,
            *(["re_asked"] if answer.re_asked else []),
            *(["first_kept"] if answer.first_kept else []),
        ],
        reward_detail=score.detail,
        experience_ids=experience_ids,
        prompt_half=prompt_half,
    )


def group_trial(members: Sequence[Rollout | Fusion], scores: Sequence[float | None]) -> GroupTrial | None:
    """What a group measures of its experiences; None if all its members have the same prompt.

    Args:
        members: of the group, each with its half.
        scores: of the members; None for one that no prompt was asked for.
    """
    halves = [member.prompt_half for member in members]
    if None in halves:
        return None
    shown = {
        half: {name for member in members if member.prompt_half == half for name in member.experience_ids}
        for half in HALVES
    }
    scored = [(half, score) for half, score in zip(halves, scores, strict=True) if half and score is not None]
    return GroupTrial(
        difference=difference([half for half, _ in scored], [score for _, score in scored]),
        halves={name: half for half in HALVES for name in sorted(shown[half] ^ (shown["A"] & shown["B"]))},
        rollouts={half: halves.count(half) for half in HALVES},
        correct={
            half: sum(bool(member.is_correct) for member in members if member.prompt_half == half) for half in HALVES
        },
    )


def rollout_scores(rollouts: Sequence[Rollout]) -> list[float]:
    """What experiences are measured by: right or wrong, or the total reward of a task without right answers."""
    if all(rollout.is_correct is not None for rollout in rollouts):
        return [float(bool(rollout.is_correct)) for rollout in rollouts]
    return [total_of(rollout) for rollout in rollouts]


def total_of(rewards: Rewards | Rollout) -> float:
    """``r_total`` of a scored candidate.

    Raises:
        ConfigurationError: every component that the task measures has weight 0.
    """
    if rewards.r_total is None:
        raise ConfigurationError(
            "No reward: every component that this task measures has weight 0",
            fix="Set --weight-ans above 0.",
        )
    return rewards.r_total


def scored_group(
    members: Sequence[Rollout | Fusion],
    stats: GroupStats,
    new_records: Sequence[RolloutGroup | Fusion],
    trial: GroupTrial | None,
) -> ScoredGroup:
    """A complete group as the loop takes it. Uses only the records, so that a resumed run sees and asks the same.

    Args:
        members: its rollouts or fusions.
        stats: of their ``r_total``.
        new_records, trial: as in :class:`ScoredGroup`; a group without new records is kept.
    """
    rewards = [member.rewards.by_name() for member in members]
    names = dict.fromkeys(name for components in rewards for name in components)
    experience_ids = list(dict.fromkeys(name for member in members for name in member.experience_ids))
    executed = [bool(member.is_correct) for member in members if member.answer_source == "executed"]
    shown = GroupLine(
        mean=stats.mean,
        std=stats.std,
        triggered=stats.triggered,
        correct=sum(bool(member.is_correct) for member in members),
        size=len(members),
        executed=len(executed),
        executed_right=sum(executed),
        with_logprobs=sum(_has_logprobs(member.completion) for member in members),
        has_experiences=bool(experience_ids),
    )
    return ScoredGroup(
        new_records,
        attempts=[_attempt(member) for member in members],
        shown=shown,
        components={name: [components.get(name) for components in rewards] for name in names},
        stats=stats,
        experience_ids=experience_ids,
        is_kept=not new_records,
        trial=trial,
    )


def scored_rollouts(group: RolloutGroup, tau: float, new_records: Sequence[RolloutGroup]) -> ScoredGroup:
    """A complete group of a generator as the loop takes it; ``new_records`` as in :class:`ScoredGroup`."""
    rollouts = group.rollouts
    stats = group.stats or group_stats([total_of(rollout) for rollout in rollouts], tau)
    return scored_group(rollouts, stats, new_records, group_trial(rollouts, rollout_scores(rollouts)))


def stored_figures(group: GroupSummary, tau: float) -> ScoredGroup | None:
    """What is shown and counted of a stored group, without reading it; None if it has no rewards."""
    if group.mean is None or group.sigma is None:
        return None
    is_triggered = group.with_tau(tau).triggered
    return ScoredGroup(
        new_records=(),
        attempts=[],
        shown=GroupLine(
            mean=group.mean,
            std=group.sigma,
            triggered=is_triggered,
            correct=group.right,
            size=group.rollouts,
            executed=group.executed,
            executed_right=group.executed_right,
            with_logprobs=group.with_logprobs,
            has_experiences=bool(group.experiences),
        ),
        components={name: spread.as_values() for name, spread in group.components.items()},
        stats=GroupStats(mean=group.mean, std=group.sigma, advantages=[], triggered=is_triggered),
        experience_ids=[],
        is_kept=True,
    )


def _has_logprobs(completion: Completion | None) -> bool:
    """Whether log-probs and the token ids that they belong to are both stored."""
    return completion is not None and bool(completion.token_ids and completion.logprobs)


def _attempt(record: Rollout | Fusion) -> Attempt:
    """A rollout or a fusion as the analyst sees it."""
    answer = record.answer
    text = record.scaffold if isinstance(record.scaffold, str) else None
    if text is None and record.completion is not None:
        text = record.completion.text
    remarks = [] if record.fault is None else [record.fault.kind]
    if record.answer_source == "executed" and record.stated_answer not in (None, answer):
        remarks.append(f"its graph gives {answer}, its text says {record.stated_answer}")
    remarks += record.reward_detail.get("remarks", [])
    return Attempt(
        text=(text or "(no text)")[:_ATTEMPT_CHARS],
        answer=answer,
        is_correct=bool(record.is_correct),
        r_total=record.rewards.r_total or 0.0,
        remarks="; ".join(remarks),
    )
