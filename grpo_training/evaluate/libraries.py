"""Evaluates experience libraries, fusions and majority votes on problems that were not used for learning."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from agents.chat import ChatClient
from agents.critic import CriticAgent, FusionInput
from agents.generator import GeneratorAgent
from engine.api_manager import GENERATORS
from engine.experience.choice import LearnedExperiences
from engine.experience.state import LibraryState
from engine.records import Candidate, Experience, Outcome, Problem, Sampling
from engine.reward_evaluator import RewardEvaluator, Scored
from engine.statistics.groups import majority
from engine.task import Task
from engine.tasks.registry import task_named
from grpo_training.evaluate.arms import Arm, ProblemResult, group_of

BASE, BASE_AGAIN, FUSION, MAJORITY = "base", "base again (A/A)", "fusion by the critic", "majority vote"
LIBRARIES = "the three libraries together"

_PROBLEMS_IN_FLIGHT = 8
"""Each draws ten samples at once; with two samples per problem this keeps 80 requests in flight."""

_SEED_STEP = 1000
"""Difference between the seeds of two arms: arms with equal prompts must draw different samples."""


def library_arm(role: str) -> str:
    """The name of the arm that answers with a generator's library."""
    return f"library of {role}"


ARM_NAMES = (BASE, BASE_AGAIN, *map(library_arm, GENERATORS), LIBRARIES, FUSION, MAJORITY)


class LibraryEvaluation:
    """Answers problems without a library, with each generator's library, and by fusing those answers.

    Uses the agents, templates, tasks and rewards of learning. The fusion and the vote number k combine the samples
    number k of the three libraries' arms.

    Args:
        client: draws the samples.
        libraries: by role: ``generator_1`` to ``generator_3`` and ``critic``.
        samples: samples per problem and arm.
        sampling: sampling parameters; the seed is that of the base.
        style: prompt style.
        evaluator: scores the answers.
    """

    def __init__(
        self,
        client: ChatClient,
        libraries: Mapping[str, LibraryState],
        *,
        samples: int,
        sampling: Sampling,
        style: str,
        evaluator: RewardEvaluator | None = None,
    ) -> None:
        self._experiences = {role: LearnedExperiences(state) for role, state in libraries.items()}
        self._samples = samples
        self._evaluator = evaluator or RewardEvaluator()
        self._base = GeneratorAgent(client, GENERATORS[0], sampling, style)
        seeds = [None if sampling.seed is None else sampling.seed + _SEED_STEP * step for step in range(1, 5)]
        samplings = [sampling.model_copy(update={"seed": seed}) for seed in seeds]
        self._generators = [
            GeneratorAgent(client, role, own, style) for role, own in zip(GENERATORS, samplings[:3], strict=True)
        ]
        self._critic = CriticAgent(client, samplings[3], style)

    async def run(self, problems: Sequence[Problem], done: Callable[[], None] = lambda: None) -> list[Arm]:
        """Answer all problems in all arms.

        Args:
            problems: problems that were not used for learning.
            done: called after each problem.

        Returns:
            the arms in the order of ``ARM_NAMES``.

        Raises:
            ScaffoldError: from the client: rejected requests, a journal that cannot be written; from ``done``.
        """
        slots = asyncio.Semaphore(_PROBLEMS_IN_FLIGHT)

        async def answer(problem: Problem) -> dict[str, list[bool | None]]:
            async with slots:
                verdicts = await self._answer_in_all_arms(problem)
            done()
            return verdicts

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(answer(problem)) for problem in problems]
        except ExceptionGroup as failed:  # a rejected request raises the same error in every task
            raise failed.exceptions[0] from None
        verdicts = [task.result() for task in tasks]
        return [
            Arm(
                name,
                [
                    ProblemResult(problem.id, group_of(problem), tuple(by_arm[name]))
                    for problem, by_arm in zip(problems, verdicts, strict=True)
                ],
            )
            for name in ARM_NAMES
        ]

    async def _answer_in_all_arms(self, problem: Problem) -> dict[str, list[bool | None]]:
        """Arm -> verdicts of one problem's samples."""
        task, count = task_named(problem.task), self._samples
        base, *of_libraries = await asyncio.gather(
            self._answers(self._base, task, problem, (), 2 * count),
            *(
                self._answers(agent, task, problem, self._experiences[agent.role].of(problem), count)
                for agent in self._generators
            ),
        )
        rows = list(zip(*of_libraries, strict=True))
        fusions = await asyncio.gather(*(self._fuse(task, problem, row) for row in rows))
        return {
            BASE: _verdicts(base[:count]),
            BASE_AGAIN: _verdicts(base[count:]),
            **{library_arm(role): _verdicts(own) for role, own in zip(GENERATORS, of_libraries, strict=True)},
            LIBRARIES: _verdicts([sample for own in of_libraries for sample in own]),
            FUSION: _verdicts(fusions),
            MAJORITY: _verdicts([await asyncio.to_thread(_vote, task, row) for row in rows]),
        }

    async def _answers(
        self, agent: GeneratorAgent, task: Task, problem: Problem, experiences: Sequence[Experience], count: int
    ) -> list[Scored | None]:
        answers = await agent.answer(task, problem, experiences, range(count))
        return list(await asyncio.gather(*(self._judge(task, problem, answer.read) for answer in answers)))

    async def _fuse(self, task: Task, problem: Problem, row: Sequence[Scored | None]) -> Scored | None:
        inputs = [
            FusionInput(sample.candidate, sample.answer, sample.answer_source) for sample in row if sample is not None
        ]
        if len(inputs) < len(row):
            return None
        fused = await self._critic.fuse(
            task, problem, ", ".join(GENERATORS), inputs, self._experiences[self._critic.role].of(problem)
        )
        return await self._judge(task, problem, fused.candidate)

    async def _judge(self, task: Task, problem: Problem, candidate: Candidate | None) -> Scored | None:
        """The scored candidate; None without a candidate or if the checker could not be started."""
        if candidate is None:
            return None
        scored = await asyncio.to_thread(self._evaluator.score, task, problem, candidate)
        return None if scored.outcome is Outcome.INFRA_FAULT or scored.is_correct is None else scored


def _verdicts(samples: Sequence[Scored | None]) -> list[bool | None]:
    return [None if sample is None else sample.is_correct for sample in samples]


def _vote(task: Task, row: Sequence[Scored | None]) -> Scored | None:
    """The sample with the most frequent answer of the row; without a majority, the first sample."""
    present = [sample for sample in row if sample is not None]
    if len(present) < len(row):
        return None
    agreeing = majority([sample.answer for sample in present], task.same_answer)
    return present[agreeing[0] if agreeing else 0]
