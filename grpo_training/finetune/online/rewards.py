"""The rewards of tasks as a reward function of TRL.

Each row of the dataset contains its whole problem, and TRL passes the columns of the row with each completion. So a
completion is always scored against its own problem, however a batch is shuffled or repeated.
"""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents.generator import generator_messages
from engine.errors import ScaffoldError
from engine.records import Completion, Outcome, Problem
from engine.task import task_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from engine.reward_evaluator import RewardEvaluator
    from engine.task import Task

PATIENCE = 3
WORKERS = 8


class NothingScoredError(ScaffoldError, RuntimeError):
    """No completion of several consecutive batches could be scored."""

    exit_code = 3


@dataclass(frozen=True)
class ScoredCompletion:
    """A completion and its reward.

    Args:
        problem: its problem.
        text: the completion as text.
        token_ids: the sampled token ids.
        reward: ``r_total``; None after an infrastructure fault.
        components: the measured components by name.
        is_correct: whether the answer is right; None if it could not be checked.
        outcome: how parsing and measuring ended.
    """

    problem: Problem
    text: str
    token_ids: tuple[int, ...]
    reward: float | None
    components: Mapping[str, float]
    is_correct: bool | None
    outcome: Outcome


def dataset_rows(problems: Iterable[Problem], style: str) -> list[dict[str, Any]]:
    """Problems as rows of a TRL dataset: the chat ``prompt`` without experiences, and the fields of the problem.

    ``meta`` is JSON text, because a column has one type and the keys of ``meta`` differ between tasks.
    """
    return [
        {
            "prompt": [message.model_dump() for message in messages_of(problem, style)],
            "problem_id": problem.id,
            "problem_text": problem.text,
            "answer": problem.answer,
            "task": problem.task,
            "meta": json.dumps(problem.meta, ensure_ascii=False),
        }
        for problem in problems
    ]


def messages_of(problem: Problem, style: str) -> Any:
    """The generator's prompt of a problem, without experiences."""
    return generator_messages(task_named(problem.task), problem, (), style)


class TaskReward:
    """The reward function: ``r_total``, and its components as metrics. Use as a context manager.

    TRL calls it once per batch of completions. The reward of a completion is None after an infrastructure fault (a
    checker that did not start); TRL leaves it out of its group. Metrics:
    ``rewards/<component>/mean``, ``pass_rate``, and the shares ``faults/infra``, ``faults/model``,
    ``faults/verifier_timeout``.

    Args:
        evaluator: computes the rewards.
        scorer: the task that reads and scores completions; None: the task of each problem.
        workers: number of threads that score completions.
        patience: number of consecutive batches without any reward after which the run is stopped.
    """

    __name__ = "r_total"  # TRL names the metric after it

    def __init__(
        self,
        evaluator: RewardEvaluator,
        *,
        scorer: Task | None = None,
        workers: int = WORKERS,
        patience: int = PATIENCE,
    ) -> None:
        self.latest: list[ScoredCompletion] = []
        self.faults: Counter[Outcome] = Counter()
        self._evaluator, self._scorer = evaluator, scorer
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="reward")
        self._patience, self._unscored_batches = patience, 0

    def __enter__(self) -> TaskReward:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def __call__(
        self,
        *,
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        problem_id: Sequence[str],
        problem_text: Sequence[str],
        answer: Sequence[str],
        task: Sequence[str],
        meta: Sequence[str],
        log_metric: Callable[[str, float], None] | None = None,
        **_: Any,
    ) -> list[float | None]:
        """Score a batch.

        Args:
            completions: texts, or conversations whose last message is the reply.
            completion_ids: the sampled token ids.
            problem_id, problem_text, answer, task, meta: the columns of :func:`dataset_rows`.
            log_metric: called with the name and the value of each metric.

        Returns:
            one reward per completion, in their order.

        Raises:
            NothingScoredError: no completion of ``patience`` consecutive batches could be scored.
        """
        rows = zip(completions, completion_ids, problem_id, problem_text, answer, task, meta, strict=True)
        self.latest = list(self._pool.map(lambda row: self._score(*row), rows))
        self.faults.update(one.outcome for one in self.latest if one.outcome is not Outcome.OK)
        if log_metric is not None:
            for name, value in batch_metrics(self.latest).items():
                log_metric(name, value)
        self._check_any_scored()
        return [one.reward for one in self.latest]

    def _score(
        self, completion: Any, token_ids: Sequence[int], name: str, question: str, truth: str, kind: str, meta: str
    ) -> ScoredCompletion:
        problem = Problem(id=name, text=question, answer=truth, task=kind, meta=json.loads(meta))
        task = self._scorer or task_named(kind)
        text, reasoning = _text_of(completion)
        scored = self._evaluator.score(task, problem, task.parse(Completion(text=text, reasoning=reasoning), problem))
        components = {name: value for name, value in scored.rewards.by_name().items() if value is not None}
        reward = scored.rewards.r_total if scored.outcome.carries_reward else None
        return ScoredCompletion(problem, text, tuple(token_ids), reward, components, scored.is_correct, scored.outcome)

    def _check_any_scored(self) -> None:
        if any(one.reward is not None for one in self.latest):
            self._unscored_batches = 0
            return
        self._unscored_batches += 1
        if self._unscored_batches >= self._patience:
            counts = ", ".join(f"{outcome} {count}" for outcome, count in self.faults.most_common())
            raise NothingScoredError(
                f"No completion of the last {self._unscored_batches} batches could be scored",
                why=f"Outcomes so far: {counts or 'no component was measured'}.",
                fix="Run python -m grpo_training.doctor to find the cause, then run the same command again.",
            )


def batch_metrics(scored: Sequence[ScoredCompletion]) -> dict[str, float]:
    """The metrics of a batch: means over the completions with a value, and shares of all completions."""
    metrics: dict[str, float] = {}
    for name in sorted({name for one in scored for name in one.components}):
        values = [one.components[name] for one in scored if name in one.components]
        metrics[f"rewards/{name}/mean"] = sum(values) / len(values)
    verdicts = [one.is_correct for one in scored if one.is_correct is not None]
    if verdicts:
        metrics["pass_rate"] = sum(verdicts) / len(verdicts)
    shares = {
        "faults/infra": sum(one.reward is None for one in scored),
        "faults/model": sum(one.outcome is Outcome.MODEL_FAULT for one in scored),
        "faults/verifier_timeout": sum(one.outcome is Outcome.VERIFIER_TIMEOUT for one in scored),
    }
    return metrics | {name: count / len(scored) for name, count in shares.items()}


def _text_of(completion: Any) -> tuple[str, str | None]:
    """The text of a completion, and its reasoning if the tokenizer separated it."""
    if isinstance(completion, str):
        return completion, None
    message = completion[-1]
    return str(message.get("content") or ""), message.get("thinking") or message.get("reasoning_content")
