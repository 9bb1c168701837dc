"""Records from scores: rollouts as the cache stores them, and attempts as the analyst sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.analyst import Attempt
from agents.chat import ReadReply
from engine.errors import ConfigurationError, InputError
from engine.experience.events import GroupTrial
from engine.experience.trial import HALVES, difference
from engine.records import Candidate, Fusion, Half, Problem, Rewards, Rollout
from engine.reward_evaluator import Scored
from engine.task import Task

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


def names_of(members: Sequence[Rollout | Fusion]) -> list[str]:
    """The experiences in the prompts of a group."""
    return list(dict.fromkeys(name for one in members for name in one.experience_ids))


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


def attempt_from_rollout(rollout: Rollout) -> Attempt:
    """A rollout as the analyst sees it. Uses only the record, so that a resumed run asks the same."""
    return _attempt(rollout, rollout.scaffold, rollout.answer, rollout.r_total)


def attempt_from_fusion(fusion: Fusion) -> Attempt:
    """A fusion as the analyst sees it."""
    return _attempt(fusion, fusion.fused_scaffold, fusion.final_answer, fusion.rewards.r_total)


def _attempt(record: Rollout | Fusion, scaffold: Any, answer: str | None, r_total: float | None) -> Attempt:
    text = scaffold if isinstance(scaffold, str) else None
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
        r_total=r_total or 0.0,
        remarks="; ".join(remarks),
    )


def check_same_problem(problem: Problem, text: str, ground_truth: str, place: str) -> None:
    """Raise ``InputError`` if stored results have the problem's id and belong to another problem."""
    if (problem.text, problem.answer) != (text, ground_truth):
        raise InputError(
            f"{place} contains another problem with the id {problem.id}",
            why="The dataset has changed, or the cache belongs to another one.",
            fix="Pass --fresh to set those results aside, or another --cache-dir.",
        )
