"""Records from scores: rollouts as the cache stores them, and groups as the loop and the analyst see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from agents.analyst import Attempt
from agents.chat import ReadReply
from engine.errors import ConfigurationError, InputError
from engine.experience.events import GroupTrial
from engine.experience.trial import HALVES, difference
from engine.records import Candidate, Completion, Fusion, GroupStats, Half, Problem, Rewards, Rollout
from engine.reward_evaluator import Scored
from engine.task import Task
from grpo_training.learning.extractor import ScoredFigures, ScoredGroup

RecordT = TypeVar("RecordT")

_ATTEMPT_CHARS = 6000
"""The analyst sees at most this many characters of an attempt."""


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
    halves = [one.prompt_half for one in members]
    if None in halves:
        return None
    stood = {
        half: {name for one in members if one.prompt_half == half for name in one.experience_ids} for half in HALVES
    }
    counted = [
        (one, half, score) for one, half, score in zip(members, halves, scores, strict=True) if score is not None
    ]
    return GroupTrial(
        difference=difference([half for _, half, _ in counted if half], [score for _, _, score in counted]),
        halves={name: half for half in HALVES for name in sorted(stood[half] ^ (stood["A"] & stood["B"]))},
        rollouts={half: halves.count(half) for half in HALVES},
        correct={half: sum(bool(one.is_correct) for one in members if one.prompt_half == half) for half in HALVES},
    )


def rollout_scores(rollouts: Sequence[Rollout]) -> list[float]:
    """What experiences are measured by: right or wrong, or the total reward of a task without right answers."""
    if all(one.is_correct is not None for one in rollouts):
        return [float(bool(one.is_correct)) for one in rollouts]
    return [total_of(one) for one in rollouts]


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
    record: RecordT,
    members: Sequence[Rollout | Fusion],
    stats: GroupStats,
    *,
    trial: GroupTrial | None,
    is_kept: bool,
) -> ScoredGroup[RecordT]:
    """A complete group as the loop takes it. Uses only the records, so that a resumed run sees and asks the same.

    Args:
        record: what the cache stores of it.
        members: its rollouts or fusions.
        stats: of their ``r_total``.
        trial, is_kept: as in :class:`ScoredGroup`.
    """
    rewards = [one.rewards.by_name() for one in members]
    names = dict.fromkeys(name for own in rewards for name in own)
    experience_ids = list(dict.fromkeys(name for one in members for name in one.experience_ids))
    figures = ScoredFigures(
        mean=stats.mean,
        std=stats.std,
        triggered=stats.triggered,
        size=len(members),
        correct=sum(bool(one.is_correct) for one in members),
        rewards={name: [own.get(name) for own in rewards] for name in names},
        has_experiences=bool(experience_ids),
        re_asked=sum("re_asked" in one.repairs for one in members),
        repaired=sum(bool(one.repairs) for one in members),
        with_logprobs=sum(_has_logprobs(one.completion) for one in members),
        executed=[bool(one.is_correct) for one in members if one.answer_source == "executed"],
    )
    return ScoredGroup(record, [_attempt(one) for one in members], figures, stats, experience_ids, is_kept, trial)


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


def check_same_problem(problem: Problem, text: str, ground_truth: str, place: str) -> None:
    """Raise ``InputError`` if stored results have the problem's id and belong to another problem."""
    if (problem.text, problem.answer) != (text, ground_truth):
        raise InputError(
            f"{place} contains another problem with the id {problem.id}",
            why="The dataset has changed, or the cache belongs to another one.",
            fix="Pass --fresh to set those results aside, or another --run or folder to keep both.",
        )
