"""Samples of a model on problems, each judged: what every figure of an evaluation is made from."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agents.generator import generator_messages, read_candidate
from engine.records import ChatRequest, Outcome
from engine.reward_evaluator import RewardEvaluator
from engine.task import task_named
from grpo_training.learning.window import run_in_window

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agents.chat import ChatClient
    from engine.records import Completion, Experience, Fault, Problem, Reply, Sampling
    from engine.task import Task

_SAMPLES_AT_A_TIME = 256
"""More than local servers and most endpoints use; the client's own limits hold it back where it is too much."""

_FEWEST_PROBLEMS_AT_A_TIME = 4
"""So that a problem with one long reply does not leave the server alone."""

_GROUP_KEYS = ("family", "difficulty", "level", "subject")
"""The key of ``meta`` that names a problem's group: the first that is there."""


@dataclass(frozen=True)
class JudgedSample:
    """One reply and its verdict.

    Args:
        index: the sample's place.
        outcome: how it ended.
        is_right: the verdict; None where there is none, as the reply or its checker could not be had.
        answer: what was judged.
        fault: what went wrong, where something did.
        completion: the reply; None where none came.
        is_readable: whether the task found a candidate in it.
    """

    index: int
    outcome: Outcome
    is_right: bool | None
    answer: str | None = None
    fault: Fault | None = None
    completion: Completion | None = None
    is_readable: bool = False

    @property
    def is_truncated(self) -> bool:
        """Whether the reply ended because it reached its limit of tokens."""
        return self.completion is not None and self.completion.finish_reason == "length"


@dataclass(frozen=True)
class ProblemResult:
    """What is kept of a problem's samples.

    Args:
        problem_id: the problem.
        group: its family or difficulty; empty where the dataset names none.
        verdicts: one a sample, in their order; None is an open sample.
        outcomes: how many samples ended how: an outcome, and after a colon the kind of its fault.
        replies: samples to which a reply came.
        truncated: replies that reached their limit of tokens.
        unreadable: replies in which the task found no candidate (a truncated one may be one of them).
        prompt_tokens, completion_tokens: of all replies.
        cost_usd: their price; None where one has none.
    """

    problem_id: str
    group: str
    verdicts: tuple[bool | None, ...]
    outcomes: Mapping[str, int] = field(default_factory=dict)
    replies: int = 0
    truncated: int = 0
    unreadable: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None

    @property
    def is_complete(self) -> bool:
        """Whether every sample has a verdict. A problem with an open one is left out, never counted as wrong."""
        return None not in self.verdicts

    @property
    def counts(self) -> tuple[int, int]:
        """Samples with a verdict, and how many of them are right."""
        judged = [verdict for verdict in self.verdicts if verdict is not None]
        return len(judged), sum(judged)


async def evaluate_problems(
    client: ChatClient,
    role: str,
    problems: Sequence[Problem],
    *,
    samples: int,
    sampling: Sampling,
    style: str = "full",
    lessons: Sequence[Experience] = (),
    evaluator: RewardEvaluator | None = None,
    judged: Callable[[ProblemResult, Sequence[JudgedSample]], None] = lambda result, samples: None,
) -> list[ProblemResult]:
    """Draw samples of every problem and judge them.

    The prompts, tasks and verifiers are those of learning. A sample is one reply: unlike in learning, an
    unreadable one is not asked for again, as a second try would count as the first.

    Args:
        client: draws the samples.
        role: whom it asks.
        problems: what is asked; their tasks have checked them.
        samples: replies for each problem.
        sampling: how they are drawn.
        style: prompt style.
        lessons: experiences in the prompt.
        evaluator: scores the replies.
        judged: called after each problem, in the order of ``problems``, with its result and all of its samples,
            which are forgotten afterwards.

    Returns:
        one result a problem, in their order.

    Raises:
        ScaffoldError: as the client's: a refusing endpoint, a budget that is used up, a journal that cannot be
            written.
    """
    scorer = evaluator or RewardEvaluator()
    results: list[ProblemResult] = []

    async def work(_: int, problem: Problem) -> list[JudgedSample]:
        task = task_named(problem.task)
        request = ChatRequest(
            role=role,
            messages=generator_messages(task, problem, lessons, style),
            sampling=sampling,
            json_schema=task.reply_schema,
            purpose="evaluation",
        )
        replies = await client.sample(request, range(samples))
        return list(
            await asyncio.gather(*(asyncio.to_thread(_judge, scorer, task, problem, reply) for reply in replies))
        )

    def commit(_: int, problem: Problem, own: list[JudgedSample]) -> bool:
        results.append(summary(problem, own))
        judged(results[-1], own)
        return True

    window = max(_FEWEST_PROBLEMS_AT_A_TIME, _SAMPLES_AT_A_TIME // samples)
    await run_in_window(problems, window, work, commit)
    return results


def group_of(problem: Problem) -> str:
    """The family, difficulty, level or subject that the dataset gives a problem; empty where it gives none."""
    given = (problem.meta.get(key) for key in _GROUP_KEYS)
    return next((str(value) for value in given if isinstance(value, str | int) and str(value).strip()), "")


def summary(problem: Problem, samples: Sequence[JudgedSample]) -> ProblemResult:
    """What is kept of a problem's samples."""
    replies = [sample.completion for sample in samples if sample.completion is not None]
    costs = [reply.usage.cost_usd for reply in replies]
    return ProblemResult(
        problem.id,
        group_of(problem),
        tuple(sample.is_right for sample in samples),
        Counter(_ending(sample) for sample in samples),
        replies=len(replies),
        truncated=sum(sample.is_truncated for sample in samples),
        unreadable=sum(not sample.is_readable for sample in samples if sample.completion is not None),
        prompt_tokens=sum(reply.usage.prompt_tokens for reply in replies),
        completion_tokens=sum(reply.usage.completion_tokens for reply in replies),
        cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


def _judge(scorer: RewardEvaluator, task: Task, problem: Problem, reply: Reply) -> JudgedSample:
    """Read and score one reply; blocking."""
    if reply.outcome is Outcome.INFRA_FAULT:
        return JudgedSample(reply.sample_index, reply.outcome, None, fault=reply.fault)
    candidate = read_candidate(task, problem, reply)
    scored = scorer.score(task, problem, candidate)
    is_open = scored.outcome is Outcome.INFRA_FAULT
    return JudgedSample(
        reply.sample_index,
        scored.outcome,
        None if is_open else scored.is_correct,
        scored.answer,
        scored.fault,
        reply.completion,
        is_readable=candidate.outcome is Outcome.OK and scored.outcome is not Outcome.MODEL_FAULT,
    )


def _ending(sample: JudgedSample) -> str:
    return f"{sample.outcome}: {sample.fault.kind}" if sample.fault else str(sample.outcome)
