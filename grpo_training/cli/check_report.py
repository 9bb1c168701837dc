"""Prints check results, one line each, and counts them."""

from __future__ import annotations

from typing import TextIO

from engine.installation_checks import CheckLevel, CheckResult
from grpo_training.cli.terminal_text import harmless

_WIDTH = 70


class CheckReport:
    """Prints results as they arrive.

    Args:
        stream: where the lines are written.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._counts = dict.fromkeys(CheckLevel, 0)

    @property
    def failures(self) -> int:
        """The number of failed checks."""
        return self._counts[CheckLevel.FAIL]

    def section(self, title: str) -> None:
        """Print a headline."""
        self._write(f"\n{title}")

    def add(self, result: CheckResult) -> None:
        """Print one result and count it."""
        self._counts[result.level] += 1
        self._write(f"{result.level} {harmless(result.text)}")
        if result.fix:
            self._write(f"       {harmless(result.fix)}")

    def totals(self) -> None:
        """Print the summary. ``Tests`` counts passed and failed checks; warnings and skipped ones are listed apart."""
        count = self._counts
        self._write(
            f"\n{'=' * _WIDTH}\n"
            f"Tests:    {count[CheckLevel.PASS] + count[CheckLevel.FAIL]}\n"
            f"Passed:   {count[CheckLevel.PASS]}\n"
            f"Failed:   {count[CheckLevel.FAIL]}\n"
            f"Warnings: {count[CheckLevel.WARN]}\n"
            f"Skipped:  {count[CheckLevel.SKIP]}\n"
        )

    def _write(self, text: str) -> None:
        print(text, file=self._stream, flush=True)
