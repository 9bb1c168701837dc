"""The work on one group: ask for its rollouts and score them. It runs in the command's process, or on a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.generator import GeneratorAgent, prompt_hash
from engine.api_manager import GENERATORS
from engine.experience.trial import HALVES, half_of_rollout, in_half
from engine.records import Experience, Fault, Half, Problem, Rollout, RolloutGroup, Sampling, SamplingPolicy, timestamp
from engine.statistics.groups import group_stats
from engine.tasks.registry import task_named
from grpo_training.learning.groups.records import rollout_from, total_of
from grpo_training.learning.session import Session
from grpo_training.learning.settings import MAX_EPOCHS, GeneratorSettings


@dataclass(frozen=True)
class GroupOrder:
    """What a group is made from.

    Args:
        problem: the problem.
        epoch: the pass over the problems.
        experiences: those of the prompts.
        library_version: version of the library that they are from.
        halves: id -> the prompt in which an experience stands; the others stand in both. Empty: there is one prompt.
    """

    problem: Problem
    epoch: int
    experiences: tuple[Experience, ...]
    library_version: str
    halves: Mapping[str, Half] = field(default_factory=dict)


class LocalGroups:
    """Makes groups through the client of a session. The same order and the same replies give the same group.

    Args:
        role: ``generator_1`` ... ``generator_3``.
        settings: of the generator.
        session: client, judge and evaluator.
    """

    def __init__(self, role: str, settings: GeneratorSettings, session: Session) -> None:
        self._role, self._settings, self._session = role, settings, session
        sampling = Sampling(
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_tokens=settings.max_tokens,
            seed=settings.seed,
            logprobs=settings.logprobs,
        )
        self._agent = GeneratorAgent(session.client, role, sampling, settings.prompts, tasks=session.tasks)

    async def make(self, order: GroupOrder) -> RolloutGroup | Fault:
        """Ask for the rollouts of a problem and score them."""
        rollouts = await self._ask(order)
        return rollouts if isinstance(rollouts, Fault) else self._group(order, rollouts)

    async def _ask(self, order: GroupOrder) -> list[Rollout] | Fault:
        problem, count = order.problem, self._settings.rollouts
        task = task_named(problem.task)
        # Every epoch and generator has its own sample indices, so equal prompts to one model give new samples.
        first = (GENERATORS.index(self._role) * MAX_EPOCHS + order.epoch) * count
        prompts: dict[Half | None, Sequence[Experience]] = {None: order.experiences}
        if order.halves and count > 1:
            prompts = {half: in_half(half, order.experiences, order.halves) for half in HALVES}
        drawn = [half_of_rollout(number) if None not in prompts else None for number in range(count)]
        asked = {}
        for half, experiences in prompts.items():
            # The samples of a prompt have consecutive indices, so that they are drawn with one request.
            indices = range(first, first + drawn.count(half))
            first = indices.stop
            asked[half] = self._agent.answer(task, problem, experiences, indices)
        replies = dict(zip(asked, map(iter, await asyncio.gather(*asked.values())), strict=True))
        answers = [next(replies[half]) for half in drawn]
        candidates = [answer.read for answer in answers]
        for answer in answers:
            if answer.read is None:
                return answer.reply.fault or Fault(kind="unknown")
        scored = await asyncio.gather(
            *(self._session.score(task, problem, candidate) for candidate in candidates if candidate is not None)
        )
        ids = {half: [one.id for one in experiences] for half, experiences in prompts.items()}
        rollouts: list[Rollout] = []
        for number, (half, answer, score) in enumerate(zip(drawn, answers, scored, strict=True), 1):
            if isinstance(score, Fault):
                return score
            rollouts.append(rollout_from(task, number, answer, score, ids[half], half))
        return rollouts

    def _group(self, order: GroupOrder, rollouts: list[Rollout]) -> RolloutGroup:
        problem = order.problem
        return RolloutGroup(
            problem_id=problem.id,
            problem_text=problem.text,
            ground_truth=problem.answer,
            rollouts=rollouts,
            timestamp=timestamp(),
            generator_id=self._role,
            task=problem.task,
            epoch=order.epoch,
            policy=SamplingPolicy(
                model=self._session.manager.endpoint(self._role).model,
                library_version=order.library_version,
                prompt_hash=prompt_hash(task_named(problem.task), self._settings.prompts),
                sampling=self._agent.sampling,
            ),
            stats=group_stats([total_of(rollout) for rollout in rollouts], self._settings.tau),
        )
