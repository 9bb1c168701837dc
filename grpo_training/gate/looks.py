"""Ask two arms the same problems, look by look, until a group-sequential test decides."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import BinaryIO, TextIO

from engine.errors import IncompleteRunError
from engine.experience.choice import PromptExperiences
from engine.llm.client import LLMClient
from engine.records import Problem, Sampling
from engine.statistics.group_sequential import LOOKS, Finding, GroupSequentialTest
from grpo_training.cli.bar import problem_bar
from grpo_training.evaluate.arms import JudgedSample, ProblemResult, frequent_fault, write_samples
from grpo_training.evaluate.sampling import evaluate_problems

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
    """

    finding: Finding
    pairs: Sequence[Pair]
    looks: int

    @property
    def complete(self) -> list[Pair]:
        """The problems that were compared; those whose requests alone failed are left out."""
        return [pair for pair in self.pairs if _is_complete(pair)]

    @property
    def tokens(self) -> tuple[int, int]:
        """The tokens of the compared answers of each arm."""
        first, second = zip(*self.complete, strict=True)
        return _tokens(first), _tokens(second)

    @property
    def tokens_ratio(self) -> float | None:
        """The tokens of the first arm, as a multiple of those of the second."""
        first, second = self.tokens
        return round(first / second, 3) if second else None


async def ask_until_clear(
    client: LLMClient,
    arms: tuple[Arm, Arm],
    problems: Sequence[Problem],
    test: GroupSequentialTest,
    sampling: Sampling,
    stream: TextIO,
    file: BinaryIO,
    *,
    judge_role: str,
    what: str,
    asks_all: bool = False,
    at_once: bool = False,
    margin: float = 0.0,
) -> Asked:
    """Ask until a look decides, and write each answer.

    Args:
        client: asks.
        arms: are compared: the first minus the second.
        problems: in the order in which they are asked.
        test: its looks and its bounds.
        sampling: sampling parameters.
        stream: gets a line after each look.
        file: gets the answers.
        judge_role: role that judges answers by the rubric of their problem.
        what: is asked, for the progress display.
        asks_all: go on after a look has decided.
        at_once: ask all problems of a look at the same time, as for a batch.
        margin: is added to each difference in the test. With it ``better`` means that the first arm is not worse than
            the second by as much, and ``worse`` that it is worse by more. The finding is without it.

    Raises:
        IncompleteRunError: some answers are missing.
        ScaffoldError: from the client.
    """
    pairs: list[Pair] = []
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
                        sampling=sampling,
                        first_sample=_FIRST_SAMPLE,
                        style=arm.style,
                        experiences=arm.experiences,
                        judged=partial(judged, arm),
                        judge_role=judge_role,
                        at_once=at_once,
                    )
                    for arm in arms
                )
            )
        pairs += zip(*results, strict=True)
        left_out = [pair for pair in pairs if not _is_complete(pair)]
        failed = [pair for pair in left_out if not all(one.is_complete or one.refused for one in pair)]
        is_last, is_usable = look == LOOKS, count - len(left_out) >= _FEWEST
        if failed or (is_last and not is_usable):
            raise IncompleteRunError(
                f"{len(left_out)} problems have no verdict, so that they cannot be compared",
                why=f"{frequent_fault([*results[0], *results[1]])}Their requests failed, or an answer could not be "
                "checked.",
                fix="Run the same command again: stored answers are reused.",
            )
        if not is_usable:
            continue
        differences = [_share(first) - _share(second) + margin for first, second in filter(_is_complete, pairs)]
        tested = test.look(look, differences)
        finding = replace(tested, mean=tested.mean - margin, low=tested.low - margin, high=tested.high - margin)
        print(
            f"  after {len(differences)} problems: {100 * finding.mean:+z.1f} points "
            f"({100 * max(finding.low, -1.0):+z.1f} to {100 * min(finding.high, 1.0):+z.1f})",
            file=stream,
            flush=True,
        )
        if is_last or (finding.verdict is not None and not asks_all):
            return Asked(finding, pairs, look)
    raise AssertionError("the last look always decides")


def _is_complete(pair: Pair) -> bool:
    return all(one.is_complete for one in pair)


def _share(result: ProblemResult) -> float:
    """The share of right answers to a problem, of which all have a verdict."""
    judged, right = result.counts
    return right / judged


def mean_share(results: Sequence[ProblemResult]) -> float:
    """The mean share of right answers, of results with a verdict."""
    return sum(map(_share, results)) / len(results)


def _tokens(results: Sequence[ProblemResult]) -> int:
    return sum(result.prompt_tokens + result.completion_tokens for result in results)
