"""The figures of an evaluation: pure functions from the results of problems to estimates and JSON values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.statistics.paired import Estimate, paired_difference
from engine.statistics.pass_at_k import Counts, difference_in_pass_at_k, mean_pass_at_k
from grpo_training.evaluate.arms import ProblemResult, complete, sum_of_costs


@dataclass(frozen=True)
class Figures:
    """The figures of one way of answering. Problems with an unjudged sample are in ``left_out`` and in no accuracy.

    Args:
        problems: number of complete problems.
        samples: samples per complete problem; the smallest number if they differ.
        left_out: ids of the incomplete problems.
        pass_at_k: k -> mean over problems; a k that exceeds the samples of some problem is missing.
        mean_at_n: share of correct samples, each problem with the same weight (equals pass@1); None without
            complete problems.
        again: A/A test: mean of the samples with an even index minus mean of those with an odd one. It shows how
            large a difference chance makes at half the samples. None with fewer than two samples.
        truncated, unreadable: share of all completions that reached the token limit, or in which the task found
            no candidate; None without completions. These and the following cover all problems.
        outcomes: number of samples by outcome.
        prompt_tokens, completion_tokens, cost_usd: over all completions; the cost is None if a price is unknown.
    """

    problems: int
    samples: int
    left_out: tuple[str, ...]
    pass_at_k: Mapping[int, Estimate]
    mean_at_n: Estimate | None
    again: Estimate | None
    truncated: float | None
    unreadable: float | None
    outcomes: Mapping[str, int]
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None


def figures(results: Sequence[ProblemResult], k_values: Sequence[int] = (1,)) -> Figures:
    """All figures of one way of answering problems, with pass@k for the given k."""
    judged, counts = complete(results), _counts(results)
    estimates = {k: mean_pass_at_k(counts, k) for k in sorted(set(k_values))}
    completions = sum(result.completions for result in results)
    return Figures(
        problems=len(judged),
        samples=min((len(result.verdicts) for result in judged), default=0),
        left_out=tuple(result.problem_id for result in results if not result.is_complete),
        pass_at_k={k: estimate for k, estimate in estimates.items() if estimate is not None},
        mean_at_n=mean_pass_at_k(counts, 1),
        again=_even_minus_odd(judged),
        truncated=sum(result.truncated for result in results) / completions if completions else None,
        unreadable=sum(result.unreadable for result in results) / completions if completions else None,
        outcomes=dict(sum((Counter(result.endings) for result in results), Counter[str]()).most_common()),
        prompt_tokens=sum(result.prompt_tokens for result in results),
        completion_tokens=sum(result.completion_tokens for result in results),
        cost_usd=sum_of_costs([result.cost_usd for result in results]),
    )


def differences(
    after: Sequence[ProblemResult], before: Sequence[ProblemResult], k_values: Sequence[int] = (1,)
) -> dict[int, Estimate]:
    """k -> pass@k of ``after`` minus that of ``before``, paired over the problems complete in both.

    pass@1 is always included; a k that exceeds the samples of some problem is missing.
    """
    estimates = {k: difference_in_pass_at_k(_counts(after), _counts(before), k) for k in sorted({1, *k_values})}
    return {k: estimate for k, estimate in estimates.items() if estimate is not None}


def figures_json(figures: Figures) -> dict[str, Any]:
    """The figures as JSON values. JSON keys are strings, so pass@k is stored under ``str(k)``."""
    return {
        "num_tasks": figures.problems,
        "num_samples_per_task": figures.samples,
        "pass_at_k": {str(k): estimate.value for k, estimate in figures.pass_at_k.items()},
        "pass_at_k_estimates": estimates_json(figures.pass_at_k),
        "mean_at_n": figures.mean_at_n and asdict(figures.mean_at_n),
        "a_a_difference": figures.again and asdict(figures.again),
        "left_out": list(figures.left_out),
        "truncated": figures.truncated,
        "unreadable": figures.unreadable,
        "outcomes": dict(figures.outcomes),
        "usage": {
            "prompt_tokens": figures.prompt_tokens,
            "completion_tokens": figures.completion_tokens,
            "cost_usd": figures.cost_usd,
        },
    }


def task_results(results: Sequence[ProblemResult]) -> dict[str, dict[str, Any]]:
    """Problem id -> ``num_correct, num_total, pass_rate`` of the complete problems."""
    return {
        name: {"num_correct": right, "num_total": n, "pass_rate": right / n}
        for name, (n, right) in _counts(results).items()
    }


def estimates_json(estimates: Mapping[int, Estimate]) -> dict[str, Any]:
    """Estimates by ``str(k)`` as JSON values."""
    return {str(k): asdict(estimate) for k, estimate in estimates.items()}


def _counts(results: Sequence[ProblemResult]) -> dict[str, Counts]:
    """Problem id -> number of samples and of correct samples, of the complete problems."""
    return {result.problem_id: result.counts for result in complete(results)}


def _even_minus_odd(results: Sequence[ProblemResult]) -> Estimate | None:
    even, odd = (
        {
            result.problem_id: [float(bool(verdict)) for verdict in result.verdicts[start::2]]
            for result in results
            if len(result.verdicts) > 1
        }
        for start in (0, 1)
    )
    return paired_difference(even, odd) if even else None
