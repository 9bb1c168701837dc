"""Judged samples of a set of problems: the records that every figure of an evaluation is computed from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from engine.records import Completion, Fault, Outcome, Problem

FORMAT = 1
"""Version of the figures' and the samples' format."""


@dataclass(frozen=True)
class JudgedSample:
    """One completion with its verdict.

    Args:
        index: index of the sample within its problem.
        outcome: how it ended.
        is_right: the verdict; None if there is no completion or the checker could not be started.
        answer: the answer that was judged.
        fault: what went wrong, if anything did.
        completion: None if the endpoint returned none.
        is_readable: whether the task could parse a candidate.
    """

    index: int
    outcome: Outcome
    is_right: bool | None
    answer: str | None = None
    fault: Fault | None = None
    completion: Completion | None = None
    is_readable: bool = False

    @property
    def is_truncated(self) -> bool:
        """Whether the completion reached the token limit."""
        return self.completion is not None and self.completion.finish_reason == "length"

    @property
    def ending(self) -> str:
        """The outcome, followed by the kind of the fault if there is one."""
        return f"{self.outcome}: {self.fault.kind}" if self.fault else str(self.outcome)


@dataclass(frozen=True)
class ProblemResult:
    """Verdicts and counts of one problem's samples; the completions themselves are not kept.

    Args:
        problem_id: id of the problem.
        verdicts: one per sample, in order; None is a sample without a verdict.
        endings: number of samples by :attr:`JudgedSample.ending`.
        completions: number of samples with a completion.
        truncated: completions that reached the token limit.
        unreadable: completions in which the task found no candidate (truncated ones may be among them).
        prompt_tokens, completion_tokens: sums over all completions.
        cost_usd: price of all completions; None if one of them has no price.
        refused: the server's words, if all its missing samples are those of requests that alone failed; else empty.
    """

    problem_id: str
    verdicts: tuple[bool | None, ...]
    endings: Mapping[str, int] = field(default_factory=dict)
    completions: int = 0
    truncated: int = 0
    unreadable: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    refused: str = ""

    @classmethod
    def of(cls, problem: Problem, samples: Sequence[JudgedSample]) -> ProblemResult:
        """Summarise a problem's samples."""
        completions = [sample.completion for sample in samples if sample.completion is not None]
        missing = [sample.fault for sample in samples if sample.is_right is None]
        alone = [fault for fault in missing if fault is not None and fault.is_alone]
        return cls(
            problem.id,
            tuple(sample.is_right for sample in samples),
            Counter(sample.ending for sample in samples),
            completions=len(completions),
            truncated=sum(sample.is_truncated for sample in samples),
            unreadable=sum(not sample.is_readable for sample in samples if sample.completion is not None),
            prompt_tokens=sum(completion.usage.prompt_tokens for completion in completions),
            completion_tokens=sum(completion.usage.completion_tokens for completion in completions),
            cost_usd=sum_of_costs([completion.usage.cost_usd for completion in completions]),
            refused=alone[0].message if alone and len(alone) == len(missing) else "",
        )

    @property
    def is_complete(self) -> bool:
        """Whether every sample has a verdict. An incomplete problem is left out of all accuracies."""
        return None not in self.verdicts

    @property
    def counts(self) -> tuple[int, int]:
        """Number of samples with a verdict, and number of correct samples."""
        judged = [verdict for verdict in self.verdicts if verdict is not None]
        return len(judged), sum(judged)


def complete(results: Sequence[ProblemResult]) -> list[ProblemResult]:
    """The results of the problems of which every sample has a verdict."""
    return [result for result in results if result.is_complete]


def write_samples(
    file: BinaryIO, model: str, draw: str, result: ProblemResult, samples: Sequence[JudgedSample]
) -> None:
    """Write the judged samples of one problem, one JSON object per line."""
    for sample in samples:
        row = {
            "format": FORMAT,
            "model": model,
            "draw": draw,
            "task_id": result.problem_id,
            "sample_idx": sample.index,
            "is_correct": sample.is_right,
            "outcome": sample.outcome,
            "fault": sample.fault and sample.fault.model_dump(),
            "answer": sample.answer,
            "truncated": sample.is_truncated,
            "readable": sample.is_readable,
            "completion": sample.completion
            and sample.completion.model_dump(mode="json", exclude={"token_ids", "logprobs", "ids_source"}),
        }
        file.write(json.dumps(row, ensure_ascii=False).encode(errors="backslashreplace") + b"\n")


def refused_lines(results: Sequence[ProblemResult]) -> list[str]:
    """What to print of the problems whose requests alone failed; empty if there is none."""
    words = {result.problem_id: result.refused for result in results if result.refused}
    if not words:
        return []
    first = f"{len(words)} problems are open and left out; the same command asks for these again:"
    return [first, *(f"  {name}: {text}" for name, text in words.items())]


def frequent_fault(results: Sequence[ProblemResult]) -> str:
    """The most frequent failure among samples, as a sentence with a space after it; empty if there is none."""
    endings = sum((Counter(result.endings) for result in results), Counter[str]())
    faults = Counter({name: count for name, count in endings.items() if name.startswith(Outcome.INFRA_FAULT)})
    return "".join(f"Most frequent error: {name} ({count} samples). " for name, count in faults.most_common(1))


def sum_of_costs(costs: Sequence[float | None]) -> float | None:
    """The total in USD; None if one price is unknown."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None
