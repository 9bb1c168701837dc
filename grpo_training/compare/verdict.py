"""The result of a comparison in words. Pure functions."""

from __future__ import annotations

import shlex
from typing import Literal

from engine.records import Record
from grpo_training.improve.verdict import compared_shares, level


class Comparison(Record):
    """What was found.

    Args:
        a, b: the two ways of asking, in words.
        model_b: name of the model of B.
        margin: in points; None: which of them is better was asked.
        verdict: ``better`` or ``worse``: B. With a margin: B is not worse by as much, or it is worse by more.
        right_a, right_b: shares of right answers.
        mean, low, high: B minus A, with the interval.
        alpha: probability of a wrong verdict.
        problems: that were compared; ``of`` were planned.
        open: problems that were asked and are left out, as their requests alone failed.
        samples: answers of each problem in each arm.
        tokens: of all answers.
        tokens_ratio, cost_ratio: of B, as a multiple of those of A; None if unknown.
        cost_usd: of all answers; None if the prices are not known.
        needed: problems with which the margin, or 10 points, would be found in four of five cases.
    """

    a: str
    b: str
    model_b: str
    margin: float | None
    verdict: Literal["better", "worse", "not_proven"]
    right_a: float
    right_b: float
    mean: float
    low: float
    high: float
    alpha: float
    problems: int
    of: int
    open: int
    samples: int
    tokens: int
    tokens_ratio: float | None
    cost_usd: float | None
    cost_ratio: float | None
    needed: int


def lines(result: Comparison, dataset: str) -> list[str]:
    """A comparison in sentences: its verdict, the figures, and what can be done next."""
    right_b, right_a, difference = compared_shares(result.right_b, result.right_a, result.mean)
    ratios = [
        f"{ratio:.2g} times the {name}"
        for name, ratio in (("tokens", result.tokens_ratio), ("price", result.cost_ratio))
        if ratio is not None
    ]
    at = f", at {' and '.join(ratios)}" if ratios else ""
    cost = "" if result.cost_usd is None else f", {result.cost_usd:.2f} USD"
    sentences = [
        _said(result),
        f"Accuracy of A {right_a}, of B {right_b} on {result.problems} of {result.of} problems ({difference} points, "
        f"{level(result.alpha)} interval {100 * result.low:+z.1f} to {100 * result.high:+z.1f}){at}. "
        f"{result.tokens:,} tokens{cost}.",
    ]
    if result.verdict == "not_proven" and result.needed > result.of:
        purpose = "to see 10 points" if result.margin is None else "to show it, if both are equally good"
        sentences.append(f"About {result.needed - result.of} more problems would be needed {purpose}.")
    if result.margin is not None and result.verdict != "better":
        words = f"--dataset {shlex.quote(dataset)} --model {shlex.quote(result.model_b)}"
        sentences.append(
            f"To improve B: python -m grpo_training.improve {words}. Then compare again with --improved-b NAME, the "
            "name of its run, on problems that it has not seen."
        )
    return sentences


def _said(result: Comparison) -> str:
    if result.margin is None:
        return {
            "better": "B is better.",
            "worse": "B is worse.",
            "not_proven": "Not proven: neither is shown to be better.",
        }[result.verdict]
    points = f"{result.margin:g} points"
    return {
        "better": f"Nothing is lost: B is not worse than A by {points}.",
        "worse": f"B is worse than A by more than {points}.",
        "not_proven": f"Not proven: B may be worse than A by {points} or more.",
    }[result.verdict]
