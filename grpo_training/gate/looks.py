"""Ask two arms the same problems, look by look, until a group-sequential test decides."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TextIO

from engine.errors import IncompleteRunError
from engine.experience.choice import PromptExperiences
from engine.llm.client import LLMClient
from engine.records import Problem
from engine.statistics.group_sequential import LOOKS, Finding, GroupSequentialTest
from engine.storage.append_log import replacement
from grpo_training.cli.bar import problem_bar
from grpo_training.cli.settings import shown_path
from grpo_training.evaluate.arms import (
    JudgedSample,
    ProblemResult,
    frequent_fault,
    refused_lines,
    sum_of_costs,
    write_samples,
)
from grpo_training.evaluate.sampling import evaluate_problems
from grpo_training.gate.settings import TwoArmSettings

_FEWEST = 2
"""Complete problems without which a look has no interval."""
_FIRST_SAMPLE = 10_000_000
"""These samples have indices that no run uses, so that a stored answer of a run is never one of them."""


@dataclass(frozen=True)
class Arm:
    """One of the two ways of asking that are compared.

    Args:
        name: in the file of answers.
        role: whose endpoint is asked.
        style: prompt style.
        experiences: those in the prompts.
    """

    name: str
    role: str
    style: str
    experiences: PromptExperiences = ()


Pair = tuple[ProblemResult, ProblemResult]


@dataclass(frozen=True)
class Asked:
    """What was found, and from what.

    Args:
        finding: at the last look; its mean is that of the first arm minus the second.
        pairs: the results of each asked problem, in the order of the arms.
        looks: looks that were taken.
        tokens: of the compared answers of each arm.
        tokens_ratio: the tokens of the first arm, as a multiple of those of the second.
        right: mean share of right answers of each arm.
        costs: of all answers of each arm in USD; None if the prices are not known.
    """

    finding: Finding
    pairs: Sequence[Pair]
    looks: int
    tokens: tuple[int, int]
    tokens_ratio: float | None
    right: tuple[float, float]
    costs: tuple[float | None, float | None]

    @classmethod
    def of(cls, finding: Finding, pairs: Sequence[Pair], looks: int) -> Asked:
        """The figures of all asked problems; those whose requests alone failed are not compared."""
        compared = list(zip(*filter(_is_complete, pairs), strict=True))
        first, second = (sum(result.prompt_tokens + result.completion_tokens for result in arm) for arm in compared)
        right_first, right_second = (fmean(map(_share, arm)) for arm in compared)
        cost_first, cost_second = (sum_of_costs([entry.cost_usd for entry in arm]) for arm in zip(*pairs, strict=True))
        return cls(
            finding,
            pairs,
            looks,
            tokens=(first, second),
            tokens_ratio=round(first / second, 3) if second else None,
            right=(right_first, right_second),
            costs=(cost_first, cost_second),
        )

    @property
    def open(self) -> int:
        """Problems that were asked and are left out, as their requests alone failed."""
        return len(self.pairs) - self.finding.problems


async def ask_until_clear(
    settings: TwoArmSettings,
    client: LLMClient,
    arms: tuple[Arm, Arm],
    problems: Sequence[Problem],
    test: GroupSequentialTest,
    path: Path,
    stream: TextIO,
    *,
    judge_role: str,
    what: str,
    margin: float = 0.0,
) -> Asked:
    """Ask until a look decides, and write each answer.

    Args:
        settings: sampling, and whether it goes on after a look has decided.
        client: asks.
        arms: are compared: the first minus the second.
        problems: in the order in which they are asked.
        test: its looks and its bounds.
        path: file of the answers.
        stream: gets a line after each look, and the place of the answers.
        judge_role: role that judges answers by the rubric of their problem.
        what: is asked, for the progress display.
        margin: is added to each difference in the test. With it ``better`` means that the first arm is not worse than
            the second by as much, and ``worse`` that it is worse by more. The finding is without it.

    Raises:
        IncompleteRunError: some answers are missing.
        ScaffoldError: from the client.
    """
    pairs: list[Pair] = []
    with replacement(path) as file:
        for look, count in enumerate(test.looks, 1):
            batch = problems[len(pairs) : count]
            with problem_bar(2 * len(batch), f"look {look} of {LOOKS}", what) as done:

                def judged(arm: Arm, result: ProblemResult, samples: Sequence[JudgedSample]) -> None:
                    write_samples(file, arm.role, arm.name, result, samples)
                    done()

                results = await asyncio.gather(
                    *(
                        evaluate_problems(
                            client,
                            arm.role,
                            batch,
                            samples=test.samples,
                            sampling=settings.sampling,
                            first_sample=_FIRST_SAMPLE,
                            style=arm.style,
                            experiences=arm.experiences,
                            judged=partial(judged, arm),
                            judge_role=judge_role,
                            at_once=settings.batch,
                        )
                        for arm in arms
                    )
                )
            pairs += zip(*results, strict=True)
            finding = _finding(test, look, pairs, margin)
            if finding is None:
                continue
            print(
                f"  after {finding.problems} problems: {100 * finding.mean:+z.1f} points "
                f"({100 * finding.low:+z.1f} to {100 * finding.high:+z.1f})",
                file=stream,
                flush=True,
            )
            if look == LOOKS or (finding.verdict is not None and not settings.ask_all):
                break
    assert finding is not None
    refused = refused_lines([result for pair in pairs for result in pair])
    print(*refused, f"Each answer is in {shown_path(path)}", sep="\n", file=stream)
    return Asked.of(finding, pairs, look)


def _finding(test: GroupSequentialTest, look: int, pairs: Sequence[Pair], margin: float) -> Finding | None:
    """What a look finds, with an interval inside -1 and 1; None if too few problems are complete.

    Raises:
        IncompleteRunError: some answers are missing for another reason than a refusal, or too few at the last look.
    """
    compared = [pair for pair in pairs if _is_complete(pair)]
    failed = [side for pair in pairs for side in pair if not (side.is_complete or side.refused)]
    if not failed and len(compared) >= _FEWEST:
        differences = [_share(first) - _share(second) + margin for first, second in compared]
        finding = test.look(look, differences)
        low, high = max(finding.low - margin, -1.0), min(finding.high - margin, 1.0)
        return replace(finding, mean=finding.mean - margin, low=low, high=high)
    if not failed and look < LOOKS:
        return None
    raise IncompleteRunError(
        f"{len(pairs) - len(compared)} problems have no verdict, so that they cannot be compared",
        why=f"{frequent_fault([side for pair in pairs for side in pair])}Their requests failed, or an answer could not "
        "be checked.",
        fix="Run the same command again: stored answers are reused.",
    )


def _is_complete(pair: Pair) -> bool:
    return all(result.is_complete for result in pair)


def _share(result: ProblemResult) -> float:
    """The share of right answers to a problem, of which all have a verdict."""
    judged, right = result.counts
    return right / judged
