"""Progress bars of steps that count something, and of an evaluation."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from tqdm import tqdm

from grpo_training.cli.terminal_text import LastingStream, harmless

_LINE_S = 30.0
"""Seconds between two states of a bar in a file or pipe, where each is a line."""
_PARTS = 10
"""Lines of an evaluation where there is no terminal."""


def progress_bar(items: Iterable[Any] | None = None, **options: Any) -> tqdm[Any]:
    """A bar of tqdm on stderr, which a file or pipe gets as a few lines.

    Args:
        items: what the bar iterates over; without it the caller counts with ``update``.
        options: of tqdm, such as ``desc``, ``total`` and ``unit``.
    """
    stream: Any = options.setdefault("file", sys.stderr)
    return tqdm(items, mininterval=0.5 if stream.isatty() else _LINE_S, **options)


class ProblemDone(Protocol):
    """Called once per problem."""

    def __call__(self, right: int = 0, samples: int = 0) -> None:
        """Count a problem with ``right`` correct of ``samples`` samples. Without samples no share is shown."""


def note(text: str) -> None:
    """Print a line on stderr. A bar that is shown stays below it."""
    tqdm.write(harmless(text), file=LastingStream(sys.stderr))


@contextmanager
def problem_bar(total: int, label: str, counted: str = "problems") -> Iterator[ProblemDone]:
    """A bar on a terminal, which is removed at the end; at most ten lines elsewhere.

    Args:
        total: number of problems.
        label: what is evaluated.
        counted: what the numbers count.
    """
    is_terminal = sys.stderr.isatty()
    problems = all_right = all_samples = 0

    def done(right: int = 0, samples: int = 0) -> None:
        nonlocal problems, all_right, all_samples
        problems, all_right, all_samples = problems + 1, all_right + right, all_samples + samples
        share = f"{all_right / all_samples:.0%} right" if all_samples else ""
        bar.set_postfix_str(share, refresh=False)
        bar.update()
        if not is_terminal and problems * _PARTS // total != (problems - 1) * _PARTS // total:
            print(f"  {label}: {problems}/{total} {counted} {share}".rstrip(), flush=True)

    with tqdm(total=total, desc=label, file=sys.stderr, leave=False, disable=not is_terminal) as bar:
        yield done
