"""The reward of a task, or a custom one, as a reward function of TRL.

Each row of the dataset holds its whole problem, and TRL passes the columns back with the completions. A completion is
scored against the problem of its own row only, so shuffled or repeated batches cannot mix up answers.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from engine.cores import usable_cores
from engine.errors import ScaffoldError
from engine.records import Completion, Message, Outcome, Problem
from engine.reward_evaluator import RewardEvaluator, policy_reward
from engine.task import Task
from engine.tasks.registry import task_named
from engine.training_reward import RewardFunction
from grpo_training.agents.generator import generator_messages
from grpo_training.rl_math.metrics_log import means
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.tokenising import ChatTokens
from grpo_training.train.online.custom_reward import OF_TRAINER, BatchReward

PATIENCE = 3
WORKERS = max(8, usable_cores())


class NothingScoredError(ScaffoldError, RuntimeError):
    """No completion of several consecutive batches could be scored."""

    exit_code = 3


@dataclass(frozen=True)
class ScoredCompletion:
    """A completion with its reward.

    Args:
        problem: its problem.
        text: the completion as text.
        token_ids: the sampled ids.
        reward: the reward that is trained on; None where it could not be scored.
        components: reward components by name.
        is_correct: the verdict of the verifier.
        outcome: how parsing and scoring ended.
        error: why it could not be scored, if that is known.
        figures: further figures of a task's training reward.
    """

    problem: Problem
    text: str
    token_ids: tuple[int, ...]
    reward: float | None
    components: Mapping[str, float]
    is_correct: bool | None
    outcome: Outcome
    error: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


class _Begun(NamedTuple):
    """A batch that is being scored: its rows, their scores, and when its time is over."""

    rows: Sequence[tuple[Problem, Any, Sequence[int]]]
    calls: Sequence[Future[ScoredCompletion]]
    until: float | None


def dataset_rows(
    problems: Iterable[Problem], style: str, prompts: Mapping[str, Sequence[Message]] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """Problems as rows of a TRL dataset: the chat ``prompt`` without experiences, and the ``problem`` as JSON text.

    A column has one type, and each task has its own keys.

    Args:
        problems: one row each.
        style: the prompt style of the others.
        prompts: prompts that are used as they stand, by problem id.
    """
    return [
        {
            "prompt": [message.model_dump() for message in messages_of(problem, style, prompts)],
            "problem": problem.model_dump_json(),
        }
        for problem in problems
    ]


def messages_of(problem: Problem, style: str, prompts: Mapping[str, Sequence[Message]]) -> Sequence[Message]:
    """The prompt of a problem: the stored one, or that of its task without experiences."""
    return prompts.get(problem.id) or generator_messages(task_named(problem.task), problem, (), style)


def tokenised_prompts(
    problems: Iterable[Problem],
    tokenizer: Any,
    config: GRPOTrainingConfig,
    prompts: Mapping[str, Sequence[Message]] = MappingProxyType({}),
) -> dict[str, tuple[int, ...]]:
    """The token ids of the prompts by problem id, without prompts that leave no room for a reply.

    Raises:
        ConfigurationError: the tokenizer has no chat template, or the template rejects a prompt.
    """
    chat, room = ChatTokens(tokenizer), config.max_seq_length - config.max_completion_length
    ids = {problem.id: chat.prompt(tuple(messages_of(problem, config.prompt_style, prompts))) for problem in problems}
    return {name: prompt for name, prompt in ids.items() if len(prompt) <= room}


class TrlReward:
    """The reward function: ``policy_reward`` of the task, with its components as metrics. Use as a context manager.

    With ``reward_functions`` it is the task's training reward, with the terms of its sum and its figures as metrics.

    TRL calls it once per batch of completions. The reward of a completion that could not be scored through no fault
    of the model (a verifier that did not start, a custom reward that raised) is None, which TRL leaves out of the
    group; it is never 0. Metrics: ``rewards/<component>/mean``, ``pass_rate``, the shares ``faults/infra``,
    ``faults/model``, ``faults/verifier_timeout``, and ``scoring_time``, the seconds that the step waited for it.

    Args:
        custom: scores completions by a custom reward function, from several threads, or whole batches.
        reward_functions: the training reward of each task, by its name; None: that of
            ``engine.reward_evaluator``.
        workers: completions that are scored at a time.
        deadline_s: seconds for a batch from :meth:`begin` on; completions that take longer have no reward; None: no
            limit. A custom reward that takes whole batches has none.
        clock: monotonic seconds.
    """

    __name__ = "r_total"  # what TRL names the metric by

    def __init__(
        self,
        *,
        custom: Task[Any] | BatchReward | None = None,
        reward_functions: Mapping[str, RewardFunction] | None = None,
        workers: int = WORKERS,
        deadline_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.latest: list[ScoredCompletion] = []
        self.scored = self.without_reward = 0
        self.faults: Counter[Outcome] = Counter()
        self.first_error = ""
        self._evaluator, self._custom = RewardEvaluator(), custom
        self._reward_functions = reward_functions
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="reward")
        self._unscored_batches, self._clock = 0, clock
        self._deadline_s = deadline_s
        self._begun: deque[_Begun] = deque()

    def __enter__(self) -> TrlReward:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def __call__(
        self,
        *,
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        problem: Sequence[str],
        prompts: Sequence[Any] = (),
        log_metric: Callable[[str, float], None] | None = None,
        **more: Any,
    ) -> list[float | None]:
        """Score a batch: one reward per completion, in their order.

        Args:
            completions: texts, or conversations whose last message is the reply.
            completion_ids: the sampled ids.
            problem: the column of :func:`dataset_rows`.
            prompts: the prompts as chat messages.
            log_metric: receives the name of a metric and its value for this batch.
            more: what else TRL passes.

        Raises:
            NothingScoredError: nothing could be scored in :data:`PATIENCE` consecutive batches.
        """
        called = self._clock()
        of_trainer = {name: value for name, value in (more | {"log_metric": log_metric}).items() if name in OF_TRAINER}
        if isinstance(self._custom, BatchReward):
            problems = [Problem.model_validate_json(text) for text in problem]
            rows = [task_named(parsed_problem.task).reward_row(parsed_problem) for parsed_problem in problems]
            scores = self._custom.score(prompts, completions, completion_ids, rows, of_trainer)
            scored_rows = zip(problems, completions, completion_ids, scores, strict=True)
            self.latest = [_by_function(*row) for row in scored_rows]
        else:
            if not self._begun:
                self.begin(completions=completions, completion_ids=completion_ids, problem=problem)
            batch = self._begun.popleft()
            assert [row[2] for row in batch.rows] == list(completion_ids), "another batch was begun before this one"
            self.latest = self._scored(batch)
        self.scored += len(self.latest)
        rewards = [scored.reward for scored in self.latest]
        self.without_reward += rewards.count(None)
        self.faults.update(scored.outcome for scored in self.latest if scored.outcome is not Outcome.OK)
        self.first_error = self.first_error or next((scored.error for scored in self.latest if scored.error), "")
        if log_metric is not None:
            for name, value in (batch_metrics(self.latest) | {"scoring_time": self._clock() - called}).items():
                log_metric(name, value)
        self._unscored_batches = 0 if any(reward is not None for reward in rewards) else self._unscored_batches + 1
        if self._unscored_batches >= PATIENCE:
            raise self._nothing_scored(f"None of the last {PATIENCE} batches of completions could be scored")
        return rewards

    def begin(
        self, *, completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], problem: Sequence[str]
    ) -> None:
        """Begin to score a batch in threads; a later call with the same arguments waits for the scores.

        Batches are asked for in the order in which they were begun. A custom reward that takes whole batches scores
        them in the call.
        """
        if isinstance(self._custom, BatchReward):
            return
        problems = [Problem.model_validate_json(text) for text in problem]
        rows = list(zip(problems, completions, completion_ids, strict=True))
        until = None if self._deadline_s is None else self._clock() + self._deadline_s
        self._begun.append(_Begun(rows, [self._pool.submit(self._score, *row) for row in rows], until))

    def _scored(self, batch: _Begun) -> list[ScoredCompletion]:
        """The completions of a batch; those that are not scored by its deadline have no reward."""
        remaining_s = None if batch.until is None else max(0.0, batch.until - self._clock())
        late = wait(batch.calls, timeout=remaining_s).not_done
        for call in late:
            call.cancel()  # it has no effect on one that runs, which ends at the time limit of its task
        why = f"not scored within {self._deadline_s:g} s" if late else ""
        return [
            _by_function(*row, (None, why)) if call in late else call.result()
            for row, call in zip(batch.rows, batch.calls, strict=True)
        ]

    def _score(self, problem: Problem, completion: Any, token_ids: Sequence[int]) -> ScoredCompletion:
        assert not isinstance(self._custom, BatchReward)
        reply, ids = _reply_of(completion), tuple(token_ids)
        if self._reward_functions is not None:
            candidate = task_named(problem.task).parse(reply, problem)
            paid = self._reward_functions[problem.task](candidate, problem)
            outcome = Outcome.INFRA_FAULT if paid.total is None else candidate.outcome
            return ScoredCompletion(
                problem, reply.text, ids, paid.total, paid.parts, paid.is_correct, outcome, paid.error, paid.figures
            )
        task = self._custom or task_named(problem.task)
        scored = self._evaluator.score(task, problem, task.parse(reply, problem))
        reward = None
        if scored.outcome.carries_reward:  # of a custom reward function all that it returns
            is_custom = self._custom is not None
            reward = scored.rewards.r_total if is_custom else policy_reward(task, scored.rewards, scored.is_correct)
        components = {name: value for name, value in scored.rewards.by_name().items() if value is not None}
        error = str(scored.detail.get("why", "")) if scored.outcome is Outcome.INFRA_FAULT else ""
        return ScoredCompletion(problem, reply.text, ids, reward, components, scored.is_correct, scored.outcome, error)

    def check_any_scored(self) -> None:
        """Raise ``NothingScoredError`` if there were completions, and none of them could be scored."""
        if self.scored and self.without_reward == self.scored:
            raise self._nothing_scored(f"None of {self.scored} completions could be scored")

    def _nothing_scored(self, message: str) -> NothingScoredError:
        counts = ", ".join(f"{outcome} {count}" for outcome, count in self.faults.most_common())
        error = f" First error: {self.first_error}." if self.first_error else ""
        return NothingScoredError(
            message,
            why=f"Outcomes so far: {counts or 'no component was measured'}.{error}",
            fix="Correct the verifier of the task (see python -m grpo_training.doctor) or the custom reward.",
        )


def _by_function(
    problem: Problem, completion: Any, token_ids: Sequence[int], given: tuple[float | None, str]
) -> ScoredCompletion:
    """A completion with what a reward function of TRL returned for it: the reward, or none and why."""
    reward, error = given
    components = {} if reward is None else {"r_ans": reward}
    outcome = Outcome.INFRA_FAULT if reward is None else Outcome.OK
    text = _reply_of(completion).text
    return ScoredCompletion(problem, text, tuple(token_ids), reward, components, None, outcome, error)


def batch_metrics(scored: Sequence[ScoredCompletion]) -> dict[str, float]:
    """The metrics of a batch: means over the completions that have the value, and shares of all completions."""
    components = means([completion.components for completion in scored])
    metrics = {f"rewards/{name}/mean": components[name] for name in sorted(components)}
    metrics |= dict(sorted(means([completion.figures for completion in scored]).items()))
    verdicts = [completion.is_correct for completion in scored if completion.is_correct is not None]
    if verdicts:
        metrics["pass_rate"] = sum(verdicts) / len(verdicts)
    shares = {
        "faults/infra": sum(completion.reward is None for completion in scored),
        "faults/model": sum(completion.outcome is Outcome.MODEL_FAULT for completion in scored),
        "faults/verifier_timeout": sum(completion.outcome is Outcome.VERIFIER_TIMEOUT for completion in scored),
    }
    return metrics | {name: count / len(scored) for name, count in shares.items()}


def _reply_of(completion: Any) -> Completion:
    """A completion of TRL with its reasoning, where the tokenizer separated the two."""
    if isinstance(completion, str):
        return Completion(text=completion)
    message = completion[-1]
    reasoning = message.get("thinking") or message.get("reasoning_content")
    return Completion(text=str(message.get("content") or ""), reasoning=reasoning)
