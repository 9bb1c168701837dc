"""What a look at this machine found: one line a finding, and the totals. A failure comes with its remedy."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from engine.errors import ScaffoldError
from grpo_training.cli.terminal_text import harmless

if TYPE_CHECKING:
    from typing import TextIO

_WIDTH = 70


class Level(StrEnum):
    """How a check ended. ``SKIP``: it could not be made here, and nothing is wrong with that."""

    PASS = "✓ PASS"  # noqa: S105 - no password
    FAIL = "✗ FAIL"
    WARN = "⚠ WARN"
    SKIP = "- SKIP"


_COLOURS = {Level.PASS: "32", Level.FAIL: "31", Level.WARN: "33", Level.SKIP: "2"}


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at and how it is, and for a failure or a warning how to mend it."""

    level: Level
    text: str
    fix: str = ""


def passed(text: str) -> Finding:
    """Something works."""
    return Finding(Level.PASS, text)


def failed(text: str, fix: str) -> Finding:
    """Something that is needed does not work."""
    return Finding(Level.FAIL, text, fix)


def warned(text: str, fix: str) -> Finding:
    """Something is missing or weak; what needs it will not work as well, all else will."""
    return Finding(Level.WARN, text, fix)


def skipped(text: str) -> Finding:
    """A check that could not be made here, with the reason."""
    return Finding(Level.SKIP, text)


def verdict(is_right: bool, text: str, fix: str) -> Finding:
    """Passed or failed, as ``is_right`` says."""
    return passed(text) if is_right else failed(text, fix)


def failure_of(error: ScaffoldError, place: str = "") -> Finding:
    """An error of ours as a failed check."""
    text = f"{place}: {error.what}" if place else error.what
    why = " ".join(error.why.split())  # a server's last lines are several
    return failed(f"{text} ({why})" if why else text, error.fix)


class Report:
    """Prints findings as they come and counts them.

    Args:
        stream: where the lines go.
        colour: by default where ``stream`` is a terminal and ``NO_COLOR`` is not set.
    """

    def __init__(self, stream: TextIO, colour: bool | None = None) -> None:
        self._stream = stream
        self._colour = stream.isatty() and not os.environ.get("NO_COLOR") if colour is None else colour
        self._counts = dict.fromkeys(Level, 0)

    @property
    def failures(self) -> int:
        """How many checks failed."""
        return self._counts[Level.FAIL]

    def section(self, title: str) -> None:
        """A headline."""
        self._write(f"\n{title}")

    def add(self, finding: Finding) -> None:
        """Print one finding and count it."""
        self._counts[finding.level] += 1
        sign = f"\x1b[{_COLOURS[finding.level]}m{finding.level}\x1b[0m" if self._colour else str(finding.level)
        self._write(f"{sign} {harmless(finding.text)}")
        if finding.fix:
            self._write(f"       {harmless(finding.fix)}")

    def totals(self) -> None:
        """The summary at the end. Warnings and skipped checks are no tests that could have failed."""
        count = self._counts
        self._write(
            f"\n{'=' * _WIDTH}\n"
            f"Tests:    {count[Level.PASS] + count[Level.FAIL]}\n"
            f"Passed:   {count[Level.PASS]}\n"
            f"Failed:   {count[Level.FAIL]}\n"
            f"Warnings: {count[Level.WARN]}\n"
            f"Skipped:  {count[Level.SKIP]}\n"
        )

    def _write(self, text: str) -> None:
        print(text, file=self._stream, flush=True)
