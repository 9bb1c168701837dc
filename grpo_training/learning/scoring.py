"""Scores candidates: the opinion of a judge, and the checks of the task, in threads here or on a Ray cluster."""

from __future__ import annotations

import asyncio
import functools
import pickle
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.api_manager import JUDGE_ROLE
from engine.errors import ConfigurationError, IncompleteRunError
from engine.records import Candidate, Fault, Outcome, Problem
from engine.reward_evaluator import Baseline, RewardEvaluator, Scored, unverified
from engine.task import Task
from engine.task_protocols import TakesOpinions
from engine.tasks.registry import load_task, task_named
from grpo_training.agents.judge import Judge, Opinion, judged_by_rubric
from grpo_training.learning.settings import LearnerSettings
from grpo_training.runs.settings import open_cluster

if TYPE_CHECKING:
    from engine.ray_cluster import RayCluster


@dataclass(eq=False)
class Scorer:
    """Scores the candidates of a run.

    Args:
        evaluator: measures and weights.
        judge: judges answers that have a rubric in place of a truth. It judges the reasoning of candidates too if it
            has an endpoint of its own (``reward_evaluator``), and not that of the learner.
        checks: runs the checks of this process. They have threads of their own: a check may take seconds, and the
            threads of ``asyncio`` read replies and prepare requests.
        cluster: where checks run instead; None: in this process.
        task_place: where a node finds the task of a user, as ``--task`` names it.
    """

    evaluator: RewardEvaluator
    judge: Judge
    checks: ThreadPoolExecutor
    cluster: RayCluster | None = None
    task_place: str | None = None

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
        score = functools.partial(self.evaluator.score, opinion=opinion, baseline=baseline)
        try:
            if self.cluster is None:
                scored = await asyncio.wrap_future(self.checks.submit(score, task, problem, candidate))
            else:
                verifier = await asyncio.to_thread(_verifier, task.name)
                # Packed here, as a node knows the classes of a user's file only after it has loaded the task.
                packed = pickle.dumps((problem, candidate))
                call = self.cluster.submit(score_on_node, self.task_place, task.name, verifier, score, packed)
                result = await asyncio.wrap_future(call)
                scored = pickle.loads(result)  # noqa: S301 - written by score_on_node
        except IncompleteRunError as error:  # the cluster has lost the check
            return Fault(kind="verifier_unavailable", message=f"{error.what}: {error.why}")
        if scored.outcome is Outcome.INFRA_FAULT:
            return unverified(scored)
        if verdict is not None and verdict.reason:  # the analyst reads it beside the answer
            scored.detail["remarks"] = [*scored.detail.get("remarks", ()), f"judge: {verdict.reason}"]
        return scored


@contextmanager
def open_scorer(settings: LearnerSettings, judge: Judge) -> Iterator[Scorer]:
    """A scorer with the weights of the settings, on the cluster that they name.

    Raises:
        ConfigurationError: the cluster cannot be used.
    """
    evaluator = RewardEvaluator(settings.reward_weights, settings.weight_judge)
    with open_cluster(settings) as cluster:
        checks = ThreadPoolExecutor(thread_name_prefix="checker")
        try:
            yield Scorer(evaluator, judge, checks, cluster, settings.task)
        finally:
            checks.shutdown(wait=False, cancel_futures=True)


def score_on_node(
    task_place: str | None,
    task_name: str,
    verifier: Mapping[str, Any],
    score: functools.partial[Scored],
    packed: bytes,
) -> bytes:
    """Score a candidate on a node of the cluster.

    Args:
        task_place: where to find the task of a user.
        task_name: name of the problem's task.
        verifier: what the task's ``verifier`` names where the command runs.
        score: a method of the evaluator with its options.
        packed: problem and candidate.

    Raises:
        ConfigurationError: this node would verify differently.
    """
    if task_place is not None:
        load_task(task_place)
    here = _verifier(task_name)
    if here != verifier:
        raise ConfigurationError(
            f"The task {task_name} would verify differently on a node of the cluster",
            why=f"There its verifier is {here}, where the command runs it is {verifier}.",
            fix="Install the same versions of this project and of its tools on all nodes.",
        )
    problem, candidate = pickle.loads(packed)  # noqa: S301 - written by the command
    return pickle.dumps(score(task_named(task_name), problem, candidate))


@functools.cache  # a version of a tool may be asked for with a process of its own
def _verifier(task_name: str) -> dict[str, Any]:
    return dict(task_named(task_name).verifier())
