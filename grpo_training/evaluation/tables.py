"""The figures of an evaluation: pure functions from judged samples to estimates, JSON values and tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from engine.statistics.paired import clustered_mean, paired_difference
from engine.statistics.pass_at_k import difference_in_pass_at_k, mean_pass_at_k

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.statistics.paired import Estimate
    from engine.statistics.pass_at_k import Counts
    from grpo_training.evaluation.sampling import ProblemResult
    from grpo_training.libraries.tables import View

_RULE = "=" * 50


@dataclass(frozen=True)
class GroupFigures:
    """One family or difficulty: its complete problems, and the share of right samples."""

    problems: int
    mean_at_n: Estimate


@dataclass(frozen=True)
class Figures:
    """What the samples of one model say. Problems with an open sample are in ``left_out`` and nowhere else.

    Args:
        problems: how many are complete.
        samples: of each of them; the fewest where they differ.
        left_out: ids of the problems of which a sample could not be had or judged.
        pass_at_k: k -> the mean over problems; a k that some problem has too few samples for is not there.
        mean_at_n: the share of right samples, each problem counting once (equal to pass@1); None without problems.
        again: the model against itself, the mean of its even samples minus that of its odd ones (A/A): how large
            a difference chance makes at half the samples. None with fewer than two samples.
        groups: by family or difficulty; empty where the dataset names none.
        truncated, unreadable: the share of the replies that reached their limit of tokens, or in which the task
            found nothing to judge; None without replies. Of all problems, complete or not, as are the rest.
        outcomes: how many samples ended how.
        prompt_tokens, completion_tokens, cost_usd: of all replies; the cost is None where one has no price.
    """

    problems: int
    samples: int
    left_out: tuple[str, ...]
    pass_at_k: Mapping[int, Estimate]
    mean_at_n: Estimate | None
    again: Estimate | None
    groups: Mapping[str, GroupFigures]
    truncated: float | None
    unreadable: float | None
    outcomes: Mapping[str, int]
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None


def figures(results: Sequence[ProblemResult], k_values: Sequence[int]) -> Figures:
    """All figures of one model's samples.

    Args:
        results: one a problem.
        k_values: the k of pass@k that are wanted.
    """
    complete = [result for result in results if result.is_complete]
    counts = counts_of(complete)
    estimates = {k: mean_pass_at_k(counts, k) for k in sorted(set(k_values))}
    costs = [result.cost_usd for result in results]
    replies = sum(result.replies for result in results)
    return Figures(
        problems=len(complete),
        samples=min((len(result.verdicts) for result in complete), default=0),
        left_out=tuple(result.problem_id for result in results if not result.is_complete),
        pass_at_k={k: estimate for k, estimate in estimates.items() if estimate is not None},
        mean_at_n=mean_pass_at_k(counts, 1),
        again=_again(complete),
        groups=_groups(complete),
        truncated=sum(result.truncated for result in results) / replies if replies else None,
        unreadable=sum(result.unreadable for result in results) / replies if replies else None,
        outcomes=dict(sum((Counter(result.outcomes) for result in results), Counter[str]()).most_common()),
        prompt_tokens=sum(result.prompt_tokens for result in results),
        completion_tokens=sum(result.completion_tokens for result in results),
        cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


def counts_of(results: Sequence[ProblemResult]) -> dict[str, Counts]:
    """Problem id -> samples and right ones, of the complete problems."""
    return {result.problem_id: result.counts for result in results if result.is_complete}


def differences(
    after: Sequence[ProblemResult], before: Sequence[ProblemResult], k_values: Sequence[int]
) -> dict[int, Estimate]:
    """k -> pass@k after minus before, paired over the problems that are complete in both; k as in ``figures``."""
    own, other = counts_of(after), counts_of(before)
    found = {k: difference_in_pass_at_k(own, other, k) for k in sorted({1, *k_values})}
    return {k: estimate for k, estimate in found.items() if estimate is not None}


def _again(complete: Sequence[ProblemResult]) -> Estimate | None:
    halves = [
        {
            result.problem_id: [float(bool(verdict)) for verdict in result.verdicts[start::2]]
            for result in complete
            if len(result.verdicts) > 1
        }
        for start in (0, 1)
    ]
    return paired_difference(halves[0], halves[1]) if halves[0] else None


def _groups(complete: Sequence[ProblemResult]) -> dict[str, GroupFigures]:
    means: dict[str, dict[str, list[float]]] = {}
    for result in complete:
        n, right = result.counts
        if result.group and n:
            means.setdefault(result.group, {})[result.problem_id] = [right / n]
    return {name: GroupFigures(len(own), clustered_mean(own)) for name, own in sorted(means.items())}


# ------------------------------------------------------------------ as JSON


def figures_json(told: Figures, greedy: Figures | None = None) -> dict[str, Any]:
    """The figures as JSON values; pass@k under the text of k, as in every file of this kind."""
    return {
        "num_tasks": told.problems,
        "num_samples_per_task": told.samples,
        "pass_at_k": {str(k): estimate.value for k, estimate in told.pass_at_k.items()},
        "pass_at_k_estimates": estimates_json(told.pass_at_k),
        "mean_at_n": told.mean_at_n and asdict(told.mean_at_n),
        "a_a_difference": told.again and asdict(told.again),
        "greedy_pass_at_1": greedy and greedy.mean_at_n and asdict(greedy.mean_at_n),
        "groups": {name: asdict(group) for name, group in told.groups.items()},
        "left_out": list(told.left_out),
        "greedy_left_out": None if greedy is None else list(greedy.left_out),
        "truncated": told.truncated,
        "unreadable": told.unreadable,
        "outcomes": dict(told.outcomes),
        "greedy_outcomes": None if greedy is None else dict(greedy.outcomes),
        "usage": {
            "prompt_tokens": told.prompt_tokens + (greedy.prompt_tokens if greedy else 0),
            "completion_tokens": told.completion_tokens + (greedy.completion_tokens if greedy else 0),
            "cost_usd": _cost(told, greedy),
        },
    }


def task_results(results: Sequence[ProblemResult]) -> dict[str, dict[str, Any]]:
    """Problem id -> ``num_correct, num_total, pass_rate`` of the complete problems."""
    return {
        name: {"num_correct": right, "num_total": n, "pass_rate": right / n}
        for name, (n, right) in counts_of(results).items()
    }


def estimates_json(estimates: Mapping[int, Estimate]) -> dict[str, Any]:
    """Estimates by k as JSON values, under the text of k."""
    return {str(k): asdict(estimate) for k, estimate in estimates.items()}


def _cost(told: Figures, greedy: Figures | None) -> float | None:
    costs = [told.cost_usd, *([greedy.cost_usd] if greedy else [])]
    return None if None in costs else sum(cost for cost in costs if cost is not None)


# ------------------------------------------------------------------ for a person


def ruled_lines(told: Figures) -> list[str]:
    """The result as ruled lines, such as ``pass@  1: 0.4523 (45.23%)``."""
    lines = [f"pass@{k:>3}: {one.value:.4f} ({one.value:.2%})" for k, one in told.pass_at_k.items()]
    return [_RULE, "Pass@k Results:", _RULE, *lines, _RULE]


def show(
    view: View,
    arms: Mapping[str, tuple[Sequence[ProblemResult], Sequence[ProblemResult] | None]],
    k_values: Sequence[int],
) -> None:
    """Write the tables.

    Args:
        view: where to.
        arms: name -> the sampled results and the greedy ones; the first is what is evaluated, a second the base.
        k_values: the k that were asked for.
    """
    told = {name: figures(sampled, k_values) for name, (sampled, _) in arms.items()}
    first = next(iter(told.values()))
    rows = [row for name, (_, greedy) in arms.items() for row in _rows(name, told[name], greedy)]
    view.table(
        f"{first.problems} problems, {first.samples} samples each (95 % intervals, clustered by problem)",
        ("model", "figure", "value", "95 % interval"),
        rows,
    )
    if len(arms) > 1:
        (name, (after, greedy)), (base, (before, base_greedy)) = arms.items()
        view.table(
            f"{name} minus {base}, paired over the problems complete in both",
            ("figure", "points", "95 % interval"),
            [
                *(_points_row(f"pass@{k}", one) for k, one in differences(after, before, k_values).items()),
                *(
                    _points_row("greedy pass@1", one)
                    for one in (differences(greedy, base_greedy, [1]).values() if greedy and base_greedy else ())
                ),
            ],
        )
    if first.groups:
        view.table(
            "Right by group",
            ("group", "problems", *(f"right: {name}" for name in told)),
            _group_rows(list(told.values())),
        )
    for name, one in told.items():
        for text in _remarks(one, k_values):
            view.line(f"{name}: {text}")
    for line in ruled_lines(first) if first.pass_at_k else ():
        view.line(line)


def _rows(name: str, told: Figures, greedy: Sequence[ProblemResult] | None) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (name, f"pass@{k}", _share(one.value), _interval(one)) for k, one in told.pass_at_k.items()
    ]
    if told.mean_at_n is not None:
        rows.append((name, f"mean@{told.samples}", _share(told.mean_at_n.value), _interval(told.mean_at_n)))
    if greedy is not None and (drawn := figures(greedy, [1]).mean_at_n) is not None:
        rows.append((name, "greedy pass@1", _share(drawn.value), _interval(drawn)))
    if told.again is not None:
        rows.append((name, "even minus odd samples (A/A)", *_points_row("", told.again)[1:]))
    return rows


def _group_rows(told: Sequence[Figures]) -> list[tuple[str, ...]]:
    names = sorted({name for one in told for name in one.groups})
    return [
        (
            name,
            str(max(one.groups[name].problems for one in told if name in one.groups)),
            *(_share(one.groups[name].mean_at_n.value) if name in one.groups else "-" for one in told),
        )
        for name in names
    ]


def _remarks(told: Figures, k_values: Sequence[int]) -> list[str]:
    said = []
    if told.left_out:
        said.append(
            f"{len(told.left_out)} problems are left out, as samples of theirs could not be had or judged; "
            f"they count neither as right nor as wrong ({', '.join(told.left_out[:3])}"
            f"{' ...' if len(told.left_out) > 3 else ''})"
        )
    missing = sorted(set(k_values) - told.pass_at_k.keys())
    if missing and told.problems:
        names = ", ".join(f"pass@{k}" for k in missing)
        said.append(f"{names} cannot be told from {told.samples} samples a problem (--num-samples)")
    if told.truncated is not None and told.unreadable is not None:
        said.append(f"{told.truncated:.1%} of the replies were cut off, {told.unreadable:.1%} could not be read")
    cost = "" if told.cost_usd is None else f", ${told.cost_usd:.4f}"
    said.append(f"{told.prompt_tokens:,} tokens in, {told.completion_tokens:,} out{cost}")
    return said


def _share(value: float) -> str:
    return f"{value:.1%}"


def _interval(estimate: Estimate) -> str:
    """A share's interval; what a t interval has beyond 0 and 1 is cut off."""
    if estimate.low is None or estimate.high is None:
        return "-"
    return f"{max(0.0, estimate.low):.1%} to {min(1.0, estimate.high):.1%}"


def _points_row(name: str, difference: Estimate) -> tuple[str, str, str]:
    value = f"{100 * difference.value:+.1f} points"
    if difference.low is None or difference.high is None:
        return name, value, "-"
    return name, value, f"{100 * difference.low:+.1f} to {100 * difference.high:+.1f}"
