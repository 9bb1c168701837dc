"""The work on one fusion: a generator's candidates are read from its cache and fused, and the fusion is scored.

It runs in the command's process, or on a cluster.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass

from agents.critic import CriticAgent, FusedCandidate, FusionInput
from agents.templates import role_template
from engine.records import (
    Experience,
    Fault,
    Fusion,
    Half,
    Outcome,
    Problem,
    RolloutGroup,
    Sampling,
    SamplingPolicy,
    timestamp,
)
from engine.reward_evaluator import Baseline, Scored, fusion_baseline, measured_total, unverified
from engine.tasks.registry import task_named
from grpo_training.learning.session import Session
from grpo_training.learning.settings import CriticSettings


@dataclass(frozen=True)
class FusionOrder:
    """What a fusion is made from.

    Args:
        problem: the problem.
        epoch: the pass over the problems.
        generator: ``generator_1`` ... ``generator_3``.
        group: its rollouts.
        experiences: those of the prompt.
        library_version: version of the library that they are from.
        half: which of the group's two prompts this is; None: there is one.
    """

    problem: Problem
    epoch: int
    generator: str
    group: RolloutGroup
    experiences: tuple[Experience, ...]
    library_version: str
    half: Half | None = None


class LocalFusions:
    """Makes fusions through the client of a session.

    Args:
        settings: of the critic.
        session: client, judge and evaluator.
    """

    def __init__(self, settings: CriticSettings, session: Session) -> None:
        self._settings, self._session = settings, session
        sampling = Sampling(temperature=settings.temperature, max_tokens=settings.max_tokens, seed=settings.seed)
        self._agent = CriticAgent(session.client, sampling, settings.prompts)

    async def make(self, order: FusionOrder) -> Fusion | Fault:
        """Fuse the candidates of a group and score the fusion; or the fault that leaves it open."""
        problem = order.problem
        task = task_named(problem.task)
        read = await asyncio.to_thread(_read_inputs, self._session, problem, order.group)
        if isinstance(read, Fault):
            return read
        inputs, baseline = read
        fused = await self._agent.fuse(task, problem, order.generator, inputs, order.experiences)
        if fused.candidate is None:
            return (fused.reply.fault if fused.reply else None) or Fault(kind="unknown")
        score = await self._session.score(task, problem, fused.candidate, baseline)
        return score if isinstance(score, Fault) else self._fusion(order, fused, score)

    def _fusion(self, order: FusionOrder, fused: FusedCandidate, score: Scored) -> Fusion:
        problem, candidate = order.problem, score.candidate
        task = task_named(problem.task)
        return Fusion(
            problem_id=problem.id,
            problem_text=problem.text,
            ground_truth=problem.answer,
            generator_id=order.generator,
            fused_scaffold=task.to_record(candidate),
            final_answer=score.answer,
            is_correct=score.is_correct,
            rewards=score.rewards,
            timestamp=timestamp(),
            task=problem.task,
            epoch=order.epoch,
            outcome=score.outcome,
            fault=score.fault,
            completion=fused.reply.completion if fused.reply else None,
            answer_source=score.answer_source,
            stated_answer=candidate.stated_answer,
            merged=fused.merged,
            inputs_hash=inputs_hash(order.group),
            repairs=[*candidate.repairs, *(["re_asked"] if fused.re_asked else [])],
            reward_detail=score.detail,
            experience_ids=[experience.id for experience in order.experiences],
            prompt_half=order.half,
            policy=SamplingPolicy(
                model=self._session.manager.endpoint(self._agent.role).model,
                library_version=order.library_version,
                prompt_hash=role_template("critic", task, self._settings.prompts).hash,
                sampling=self._agent.sampling,
            ),
        )


def inputs_hash(group: RolloutGroup) -> str:
    """Hash of what is fused of a group."""
    parts = [(rollout.scaffold, rollout.answer, rollout.stated_answer) for rollout in group.rollouts]
    text = json.dumps([group.problem_text, group.ground_truth, parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _read_inputs(
    session: Session, problem: Problem, group: RolloutGroup
) -> tuple[list[FusionInput], Baseline | None] | Fault:
    """One generator's candidates as inputs of a fusion, and the baseline that the fusion is compared with.

    Their rewards are those of their records. A rollout of a file without rewards is scored here.
    """
    task = task_named(problem.task)
    inputs: list[FusionInput] = []
    totals: list[float] = []
    for rollout in group.rollouts:
        candidate = task.candidate_from_record(rollout.scaffold, rollout.given_answer, problem)
        answer, source = rollout.answer, rollout.answer_source
        total = measured_total(task, rollout.rewards, rollout.reward_detail)
        if total is None:
            scored = session.evaluator.score(task, problem, candidate)
            if scored.outcome is Outcome.INFRA_FAULT:
                return unverified(scored)
            answer, source = scored.answer, scored.answer_source
            total = measured_total(task, scored.rewards, scored.detail)
        inputs.append(FusionInput(candidate, answer, source or ("none" if answer is None else "stated")))
        totals.append(total or 0.0)
    return inputs, fusion_baseline([one.answer for one in inputs], totals, task.same_answer)
