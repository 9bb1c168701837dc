"""What a learner needs to ask models and to score their replies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from agents.analyst import ExperienceAnalyst
from agents.judge import Judge, Opinion, judged_by_rubric
from engine.abilities import TakesOpinions
from engine.api_manager import ANALYST_ROLE, JUDGE_ROLE, ApiManager
from engine.llm.client import LLMClient
from engine.llm.limits.budget import Budget
from engine.llm.tally import Counters, sum_of
from engine.records import Candidate, Fault, Outcome, Problem
from engine.reward_evaluator import Baseline, RewardEvaluator, Scored, unverified
from engine.task import Task
from grpo_training.learning.settings import ExtractionSettings, LearnerSettings
from grpo_training.runs.window import USUAL, default_window
from grpo_training.serve.endpoints import check_budget, open_client


class Cluster(Protocol):
    """Workers on a cluster that make groups or fusions."""

    budget: Budget | None

    def opened(self, window: int) -> AbstractAsyncContextManager[None]:
        """Start the workers for ``window`` problems in flight; they end with the block."""

    async def make(self, order: Any) -> Any:
        """The group or the fusion of an order, or the fault that leaves it open."""

    def counters(self) -> Sequence[Counters]:
        """The totals of each worker."""

    def report_trouble_to(self, tell: Callable[[str], object]) -> None:
        """Call ``tell`` with lines of the workers."""


@dataclass(frozen=True)
class Session:
    """Client, analyst, judge and evaluator of a run.

    ``judge`` judges answers that have a rubric in place of a truth. It judges the reasoning of candidates too if it has
    an endpoint of its own (``reward_evaluator``), and not that of the learner. ``tasks`` are those of the run's
    problems; None: not known yet.

    Candidates are checked in threads of their own: a check may take seconds, and the threads of ``asyncio`` read
    replies and prepare requests.
    """

    manager: ApiManager
    client: LLMClient
    analyst: ExperienceAnalyst
    judge: Judge
    evaluator: RewardEvaluator
    tasks: Sequence[Task] | None = None
    remote: Cluster | None = None
    checkers: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, thread_name_prefix="checker"))

    @property
    def counters(self) -> Counters:
        """What was requested here and by the workers of the cluster."""
        own = self.client.counters
        return own if self.remote is None else sum_of([*self.remote.counters(), own])

    def report_trouble_to(self, tell: Callable[[str], None]) -> None:
        """Call ``tell`` with a line when an endpoint fails repeatedly, here or on a worker."""
        self.client.report_trouble_to(tell)
        if self.remote is not None:
            self.remote.report_trouble_to(tell)

    def close(self) -> None:
        """Start no more checks."""
        self.checkers.shutdown(wait=False, cancel_futures=True)

    async def score(
        self, task: Task, problem: Problem, candidate: Candidate, baseline: Baseline | None = None
    ) -> Scored | Fault:
        """Score a candidate; a fault (the judge or the checker is not available) leaves the group open."""
        if self.judge.role == JUDGE_ROLE and isinstance(task, TakesOpinions) and task.wants_opinion(candidate):
            verdict: Opinion | None = await self.judge.opinion(task, problem, candidate)
        else:
            verdict = await judged_by_rubric(self.judge, task, problem, candidate)
        if verdict is not None and verdict.outcome is Outcome.INFRA_FAULT:
            return verdict.fault or Fault(kind="judge_unreachable")
        opinion = None if verdict is None else verdict.score
        check = partial(self.evaluator.score, task, problem, candidate, opinion=opinion, baseline=baseline)
        scored = await asyncio.get_running_loop().run_in_executor(self.checkers, check)
        if scored.outcome is Outcome.INFRA_FAULT:
            return unverified(scored)
        return scored


@asynccontextmanager
async def open_session(
    settings: LearnerSettings,
    manager: ApiManager,
    role: str,
    *,
    tasks: Sequence[Task] | None = None,
    remote: Cluster | None = None,
) -> AsyncIterator[Session]:
    """Open the client and what asks through it.

    Args:
        settings: the run's settings.
        manager: the endpoints.
        role: the learner's API role; also the analyst's if no role ``analyst`` is configured.
        tasks: those of the run's problems, whose prompts are checked; None: not known yet, all are checked.
        remote: makes the groups on a cluster; its workers live as long as the session.

    Raises:
        InputError, ConfigurationError: the budget cannot be enforced.
    """
    check_budget(settings, manager, role)
    async with AsyncExitStack() as stack:
        if remote is not None:
            await stack.enter_async_context(remote.opened(settings.window or USUAL))
        client = await stack.enter_async_context(
            open_client(settings, manager)
        )
        session = replace(make_session(settings, manager, client, role, tasks), remote=remote)
        try:
            yield session
        finally:
            session.close()


def make_session(
    settings: LearnerSettings,
    manager: ApiManager,
    client: LLMClient,
    role: str,
    tasks: Sequence[Task] | None = None,
) -> Session:
    """A session of a client that is open. It has to be closed before the client."""
    return Session(
        manager,
        client,
        make_analyst(settings, manager, client, role, tasks),
        Judge(client, manager.role_of(JUDGE_ROLE, role), max_tokens=settings.max_tokens, style=settings.prompts),
        RewardEvaluator(settings.reward_weights, settings.weight_judge),
        tasks,
    )


def make_analyst(
    settings: ExtractionSettings,
    manager: ApiManager,
    client: LLMClient,
    role: str,
    tasks: Sequence[Task] | None = None,
) -> ExperienceAnalyst:
    """The analyst of a learner; it asks through the role ``analyst`` if that is configured, else through ``role``."""
    return ExperienceAnalyst(
        client,
        manager.role_of(ANALYST_ROLE, role),
        "critic" if role == "critic" else "generator",
        max_tokens=settings.max_tokens,
        seed=settings.seed,
        style=settings.prompts,
        tasks=tasks,
    )


def usual_window(manager: ApiManager, role: str, steps: int | None, epochs: int = 1, *, learns: bool = True) -> int:
    """The window of a run that neither sets nor has stored it, by the requests that an endpoint takes.

    Args:
        manager: the endpoints.
        role: whose endpoint is asked.
        steps, epochs, learns: as in :func:`default_window`.
    """
    return default_window(manager.endpoint(role).max_concurrency, steps, epochs, learns=learns)
