"""Our tasks' rewards as a reward function of TRL.

Each row of the dataset carries its whole problem, and TRL hands the columns back beside the completions. A completion
is scored against the problem of its own row, and nothing else is looked at: however a batch was shuffled or repeated,
it cannot be scored against another's answer.
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

PATIENCE = 3
WORKERS = 8


class NothingScoredError(ScaffoldError, RuntimeError):
    """No completion of several batches in a row could be scored: the run would learn from nothing."""

    exit_code = 3


@dataclass(frozen=True)
class ScoredCompletion:
    """A completion and what it earned.

    Args:
        problem: its problem.
        text: the completion as text.
        token_ids: the ids that were sampled.
        reward: ``r_total``; None where nothing was found out.
        components: what was measured, by name.
        is_correct: the verifier's verdict.
        outcome: how parsing and checking ended.
    """

    problem: Problem
    text: str
    token_ids: tuple[int, ...]
    reward: float | None
    components: Mapping[str, float]
    is_correct: bool | None
    outcome: Outcome


def dataset_rows(problems: Iterable[Problem], style: str) -> list[dict[str, Any]]:
    """Problems as rows of a TRL dataset: the chat ``prompt`` without experiences, and the problem in plain columns.

    ``meta`` is JSON text, because a column of a table holds one type and each task has keys of its own.
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
    """The prompt of a problem as the generators ask it, without experiences."""
    return generator_messages(task_named(problem.task), problem, (), style)


class TaskReward:
    """The reward function: ``r_total``, and its components as metrics. Use as a context manager.

    TRL calls it once for each batch of completions. What could not be measured for a fault of the machinery (a
    checker that did not start) is None, which TRL leaves out of the group; it is never 0. Metrics:
    ``rewards/<component>/mean``, ``pass_rate``, and the shares ``faults/infra``, ``faults/model``,
    ``faults/verifier_timeout``.

    Args:
        evaluator: weighs the components.
        workers: completions that are scored at a time.
        patience: batches in a row without a single score after which the run is stopped.
    """

    __name__ = "r_total"  # what TRL names the metric by

    def __init__(self, evaluator: RewardEvaluator, *, workers: int = WORKERS, patience: int = PATIENCE) -> None:
        self.latest: list[ScoredCompletion] = []
        self.faults: Counter[Outcome] = Counter()
        self._evaluator = evaluator
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="reward")
        self._patience, self._barren = patience, 0

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
        """Score a batch; one reward a completion, in their order.

        Args:
            completions: texts, or conversations whose last message is the reply.
            completion_ids: the sampled ids.
            problem_id, problem_text, answer, task, meta: the columns of :func:`dataset_rows`, row by row.
            log_metric: takes a metric's name and its value for this batch.

        Raises:
            NothingScoredError: nothing could be scored, ``patience`` batches in a row.
        """
        rows = zip(completions, completion_ids, problem_id, problem_text, answer, task, meta, strict=True)
        self.latest = list(self._pool.map(lambda row: self._score(*row), rows))
        self.faults.update(one.outcome for one in self.latest if one.outcome is not Outcome.OK)
        if log_metric is not None:
            for name, value in batch_metrics(self.latest).items():
                log_metric(name, value)
        self._check_for_life()
        return [one.reward for one in self.latest]

    def _score(
        self, completion: Any, token_ids: Sequence[int], name: str, question: str, truth: str, kind: str, meta: str
    ) -> ScoredCompletion:
        problem = Problem(id=name, text=question, answer=truth, task=kind, meta=json.loads(meta))
        task = task_named(kind)
        text, reasoning = _text_of(completion)
        scored = self._evaluator.score(task, problem, task.parse(Completion(text=text, reasoning=reasoning), problem))
        components = {name: value for name, value in scored.rewards.by_name().items() if value is not None}
        reward = scored.rewards.r_total if scored.outcome.carries_reward else None
        return ScoredCompletion(problem, text, tuple(token_ids), reward, components, scored.is_correct, scored.outcome)

    def _check_for_life(self) -> None:
        if any(one.reward is not None for one in self.latest):
            self._barren = 0
            return
        self._barren += 1
        if self._barren >= self._patience:
            counts = ", ".join(f"{outcome} {count}" for outcome, count in self.faults.most_common())
            raise NothingScoredError(
                f"None of the last {self._barren} batches of completions could be scored",
                why=f"Outcomes so far: {counts or 'no component was measured'}.",
                fix="Mend what the task checks answers with (python -m grpo_training.doctor tells), then run again.",
            )


def batch_metrics(scored: Sequence[ScoredCompletion]) -> dict[str, float]:
    """The metrics of a batch: means over the completions that have the figure, and shares over all."""
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
    """A completion's text, and its reasoning where the tokenizer told the two apart."""
    if isinstance(completion, str):
        return completion, None
    message = completion[-1]
    return str(message.get("content") or ""), message.get("thinking") or message.get("reasoning_content")
