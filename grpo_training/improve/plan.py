"""What a run will ask: which problems, how often, and about how many tokens. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.records import Problem
from grpo_training.gate.problems import FEW
from grpo_training.runs.estimate import TOKENS_OF_REPLY, tokens_line

_MANY = 1000
_LEAST_GROUPS, _MOST_PASSES = 120, 8
"""A small dataset is passed over until this many groups were scored, at most this often."""
_TOKENS_OF_EXPERIENCES = 150
"""Assumed where nothing was measured: half of eight experiences."""


@dataclass(frozen=True)
class Plan:
    """The work of a run.

    Args:
        learned_from: problems that the generators answer.
        tested: problems of the test.
        is_held_out: nothing is learned from the problems of the test; else each is tested without its own experiences.
        roles: generators.
        rollouts: answers of a problem in each pass.
        epochs: passes.
        samples: answers of a problem in the test, each with and without the library.
        prompt_tokens: of a prompt, estimated.
    """

    learned_from: Sequence[Problem]
    tested: Sequence[Problem]
    is_held_out: bool
    roles: int
    rollouts: int
    epochs: int
    samples: int
    prompt_tokens: int

    @property
    def groups(self) -> int:
        """Groups of one generator."""
        return len(self.learned_from) * self.epochs

    @property
    def answers(self) -> int:
        """Answers of all generators while they learn."""
        return self.roles * self.groups * self.rollouts

    @property
    def test_answers(self) -> int:
        """The most answers of the test; it stops earlier if the result is clear."""
        return 2 * self.roles * len(self.tested) * self.samples

    @property
    def learning_tokens(self) -> tuple[int, int]:
        """Prompt and completion tokens of the answers and of the analyst, estimated.

        A group sends two prompts; a server may count a prompt once for all its answers, so each answer counts here.
        The analyst reads a group and writes an experience, in at most every second group.
        """
        analyses = self.roles * self.groups // 2
        prompt = self.answers * (self.prompt_tokens + _TOKENS_OF_EXPERIENCES)
        read = analyses * (2 * self.prompt_tokens + self.rollouts * TOKENS_OF_REPLY)
        return prompt + read, self.answers * TOKENS_OF_REPLY + analyses * 100

    @property
    def test_tokens(self) -> tuple[int, int]:
        """The most prompt and completion tokens of the test, estimated."""
        prompt = self.test_answers * (self.prompt_tokens + _TOKENS_OF_EXPERIENCES)
        return prompt, self.test_answers * TOKENS_OF_REPLY

    @property
    def tokens(self) -> tuple[int, int]:
        """Prompt and completion tokens of all that is asked, estimated."""
        (read, written), (read_in_test, written_in_test) = self.learning_tokens, self.test_tokens
        return read + read_in_test, written + written_in_test

    def lines(self, cost_usd: float | None) -> list[str]:
        """The plan in sentences.

        Args:
            cost_usd: of all tokens; None if the prices are not known.
        """
        learners = "" if self.roles == 1 else f" by each of {self.roles} generators"
        where = (
            f"{len(self.tested)} problems from which nothing is learned"
            if self.is_held_out
            else f"all {len(self.tested)} problems, each without what was learned from it"
        )
        return [
            f"Learning: {len(self.learned_from)} problems, {self.rollouts} answers each in {self.epochs} "
            f"{'pass' if self.epochs == 1 else 'passes'}{learners}: at most {self.answers:,} answers.",
            f"Test: {where}, {self.samples} answers with and {self.samples} without the library: at most "
            f"{self.test_answers:,} answers.",
            tokens_line(*self.tokens, cost_usd),
        ]


def passes(problems: int) -> int:
    """Passes over a dataset: once above 1,000 problems, twice from 100 on, else at least three times."""
    if problems > _MANY:
        return 1
    if problems >= FEW:
        return 2
    return max(3, min(_MOST_PASSES, math.ceil(_LEAST_GROUPS / max(1, problems))))
