"""What libraries are worth on problems that nobody trained on: arms of answers, and their figures."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agents.critic import CriticAgent
from agents.generator import GeneratorAgent
from engine.api_manager import GENERATORS
from engine.records import Outcome
from engine.reward_evaluator import RewardEvaluator
from engine.statistics.paired import clustered_mean, majority_vote, paired_difference
from engine.task import task_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agents.chat import ChatClient
    from engine.records import Candidate, Experience, Problem, Sampling
    from engine.reward_evaluator import Scored
    from engine.statistics.paired import Estimate
    from engine.task import Task

BASE, BASE_AGAIN, FUSION, MAJORITY = "base", "base again (A/A)", "fusion by the critic", "majority vote"
LIBRARIES = "the three libraries together"

_PROBLEMS_AT_A_TIME = 8
"""Each asks for ten samples at once: with two a problem that keeps 80 in flight, more than local servers use."""

_SEEDS_APART = 1000
"""Between the seeds of the arms, so that two arms with equal prompts are two draws and not one."""


@dataclass(frozen=True)
class Arm:
    """One way to answer, on all problems.

    Args:
        name: of the way.
        verdicts: problem id -> whether each sample is right; complete problems only.
        left_out: ids of the problems of which a sample could not be had or judged. They are missing, not wrong.
    """

    name: str
    verdicts: Mapping[str, tuple[bool, ...]]
    left_out: tuple[str, ...] = ()

    def observations(self) -> dict[str, list[float]]:
        """1.0 for right and 0.0 for wrong, by problem."""
        return {name: [float(verdict) for verdict in verdicts] for name, verdicts in self.verdicts.items()}


@dataclass(frozen=True)
class ArmFigures:
    """An arm's accuracy and how it differs from the base; both None where no problem is left to compare."""

    arm: Arm
    accuracy: Estimate | None
    difference: Estimate | None


@dataclass(frozen=True)
class _Sample:
    scored: Scored
    is_right: bool


class HeldOutEvaluation:
    """Answers problems without a library, with each generator's, and by fusion of those answers.

    The same agents, templates, tasks and rewards as in learning. Each arm's fusion and vote join the k-th
    samples of the three libraries' arms.

    Args:
        client: draws the samples.
        libraries: lessons by role: ``generator_1`` to ``generator_3`` and ``critic``.
        samples: answers of each problem in each arm.
        sampling: how replies are drawn; its seed is the base's.
        style: prompt style.
        evaluator: scores the answers.
    """

    def __init__(
        self,
        client: ChatClient,
        libraries: Mapping[str, Sequence[Experience]],
        *,
        samples: int,
        sampling: Sampling,
        style: str,
        evaluator: RewardEvaluator | None = None,
    ) -> None:
        self._libraries = libraries
        self._samples = samples
        self._evaluator = evaluator or RewardEvaluator()
        self._base = GeneratorAgent(client, GENERATORS[0], sampling, style)
        seeds = [None if sampling.seed is None else sampling.seed + _SEEDS_APART * place for place in range(1, 5)]
        draws = [sampling.model_copy(update={"seed": seed}) for seed in seeds]
        self._generators = [
            GeneratorAgent(client, role, draw, style) for role, draw in zip(GENERATORS, draws[:3], strict=True)
        ]
        self._critic = CriticAgent(client, draws[3], style)

    async def run(self, problems: Sequence[Problem], done: Callable[[], None] = lambda: None) -> list[Arm]:
        """Answer all problems in all arms.

        Args:
            problems: what nobody trained on.
            done: called after each problem.

        Returns:
            base, base again, the three libraries one by one, together, fusion, majority.

        Raises:
            ScaffoldError: as the client's: a refusing endpoint, a journal that cannot be written.
        """
        slots = asyncio.Semaphore(_PROBLEMS_AT_A_TIME)

        async def one(problem: Problem) -> dict[str, list[bool] | None]:
            async with slots:
                verdicts = await self._answer_all(problem)
            done()
            return verdicts

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(problem)) for problem in problems]
        except ExceptionGroup as failed:  # a refusing endpoint tells all tasks the same
            raise failed.exceptions[0] from None
        by_problem = {problem.id: task.result() for problem, task in zip(problems, tasks, strict=True)}
        names = [BASE, BASE_AGAIN, *map(library_arm, GENERATORS), LIBRARIES, FUSION, MAJORITY]
        return [_arm(name, by_problem) for name in names]

    async def _answer_all(self, problem: Problem) -> dict[str, list[bool] | None]:
        task, count = task_named(problem.task), self._samples
        base, *of_libraries = await asyncio.gather(
            self._answers(self._base, task, problem, (), 2 * count),
            *(self._answers(agent, task, problem, self._libraries[agent.role], count) for agent in self._generators),
        )
        rows = list(zip(*of_libraries, strict=True))
        fused = await asyncio.gather(*(self._fuse(task, problem, row) for row in rows))
        return {
            BASE: _verdicts(base[:count]),
            BASE_AGAIN: _verdicts(base[count:]),
            **{library_arm(role): _verdicts(own) for role, own in zip(GENERATORS, of_libraries, strict=True)},
            LIBRARIES: _verdicts([sample for own in of_libraries for sample in own]),
            FUSION: _verdicts(fused),
            MAJORITY: _verdicts([_vote(row) for row in rows]),
        }

    async def _answers(
        self, agent: GeneratorAgent, task: Task, problem: Problem, lessons: Sequence[Experience], count: int
    ) -> list[_Sample | None]:
        answers = await agent.answer(task, problem, lessons, range(count))
        return list(await asyncio.gather(*(self._judge(task, problem, answer.read) for answer in answers)))

    async def _fuse(self, task: Task, problem: Problem, row: Sequence[_Sample | None]) -> _Sample | None:
        inputs = [sample.scored for sample in row if sample is not None]
        if len(inputs) < len(row):
            return None
        fused = await self._critic.fuse(
            task, problem, ", ".join(GENERATORS), inputs, self._libraries[self._critic.role]
        )
        return await self._judge(task, problem, fused.candidate)

    async def _judge(self, task: Task, problem: Problem, candidate: Candidate | None) -> _Sample | None:
        """The scored candidate; None where there is none, or no checker could be started."""
        if candidate is None:
            return None
        scored = await asyncio.to_thread(self._evaluator.score, task, problem, candidate)
        if scored.outcome is Outcome.INFRA_FAULT or scored.is_correct is None:
            return None
        return _Sample(scored, scored.is_correct)


def library_arm(role: str) -> str:
    """The name of the arm that answers with a generator's library."""
    return f"library of {role}"


def figures(arms: Sequence[Arm]) -> list[ArmFigures]:
    """Each arm's accuracy, and its difference to the first arm over the problems complete in both."""
    base = arms[0].observations()
    told = []
    for arm in arms:
        own = arm.observations()
        differs = arm is not arms[0] and own.keys() & base.keys()
        told.append(
            ArmFigures(
                arm,
                clustered_mean(own) if own else None,
                paired_difference(own, base) if differs else None,
            )
        )
    return told


def verdict(told: Sequence[ArmFigures]) -> str:
    """In plain words: whether the libraries' gain is real, and how large a difference chance makes."""
    differences = {one.arm.name: one.difference for one in told}
    gain, noise = differences[LIBRARIES], differences[BASE_AGAIN]
    if gain is None or gain.low is None:
        return "Too few problems were answered to say whether the libraries help."
    if not gain.excludes_zero:
        words = f"No gain can be told from chance: the libraries make {points(gain)}, and that interval includes 0."
    elif gain.value > 0:
        words = f"The libraries' gain is real: {points(gain)}, and that interval excludes 0."
    else:
        words = f"The libraries do harm: {points(gain)}, and that interval excludes 0."
    if noise is None:
        return words
    return f"{words} The noise beside it: the base against itself differs by {points(noise)}."


def points(estimate: Estimate) -> str:
    """A difference in percentage points with its interval."""
    if estimate.low is None or estimate.high is None:
        return f"{100 * estimate.value:+.1f} points"
    ends = f"{100 * estimate.low:+.1f} to {100 * estimate.high:+.1f}"
    return f"{100 * estimate.value:+.1f} points (95 % interval {ends})"


# ------------------------------------------------------------------ small pure parts


def _arm(name: str, by_problem: Mapping[str, Mapping[str, list[bool] | None]]) -> Arm:
    verdicts: dict[str, tuple[bool, ...]] = {}
    left_out = []
    for problem_id, of_arms in by_problem.items():
        own = of_arms[name]
        if own is None:
            left_out.append(problem_id)
        else:
            verdicts[problem_id] = tuple(own)
    return Arm(name, verdicts, tuple(left_out))


def _verdicts(samples: Sequence[_Sample | None]) -> list[bool] | None:
    present = [sample.is_right for sample in samples if sample is not None]
    return present if len(present) == len(samples) else None


def _vote(row: Sequence[_Sample | None]) -> _Sample | None:
    """The sample whose answer most of the row gives; where nobody answers, the first, which is wrong."""
    present = [sample for sample in row if sample is not None]
    if len(present) < len(row):
        return None
    return present[majority_vote([sample.scored.answer for sample in present]) or 0]
