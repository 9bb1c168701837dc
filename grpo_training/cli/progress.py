"""Progress of a learner: a live panel on a terminal, plain lines elsewhere, with a bar if stderr is a terminal."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TextIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from tqdm import tqdm

from grpo_training.cli.terminal_text import LastingStream, harmless

_ROWS_SHOWN = 8
_LISTED = 10
_WHO = {"rollout": "generator", "fusion": "critic", "analysis": "analyst"}
"""Purpose of a request -> who asks, where that is another word."""


class SpentTokens(Protocol):
    """Tokens and cost of a part of the requests."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens sent."""

    @property
    def completion_tokens(self) -> int:
        """Tokens received."""

    @property
    def cost_usd(self) -> float | None:
        """Cost in USD; None if no price is configured."""


class RequestCounters(SpentTokens, Protocol):
    """The client's counters; read at each refresh."""

    @property
    def in_flight(self) -> int:
        """Requests that are sent and not answered yet."""

    @property
    def retries(self) -> int:
        """Attempts after the first."""

    @property
    def hedged(self) -> int:
        """Requests that were sent a second time because the first took long."""

    @property
    def journal_hits(self) -> int:
        """Replies that were read from the journal."""

    @property
    def waiting(self) -> int:
        """Requests that wait for a slot, a pause or the next attempt."""

    @property
    def by_purpose(self) -> Mapping[str, SpentTokens]:
        """Purpose of the requests -> what they used."""


@dataclass(frozen=True)
class GroupLine:
    """Outcome of one group. ``mean`` and ``std`` are of ``r_total``; ``saved`` and ``refused`` are experiences.

    ``why_none`` says why a group that triggered has neither.
    """

    problem_id: str
    mean: float
    std: float
    triggered: bool
    correct: int
    size: int
    saved: Sequence[str] = ()
    refused: Sequence[str] = ()
    why_none: str = ""


class Progress:
    """Displays a run. Use as a context manager.

    Args:
        label: the learner (``generator_1``).
        total: number of groups; None while it is not known.
        counters: returns the client's counters.
        stream: where lines are written, stdout by default. The bar is written to stderr, if that is a terminal.
        live: show a live panel; by default if ``stream`` is a terminal.
        clock: monotonic time in seconds.
    """

    def __init__(
        self,
        label: str,
        total: int | None,
        counters: Callable[[], RequestCounters],
        *,
        stream: TextIO | None = None,
        live: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label, self._total, self._counters = label, total, counters
        self._stream: Any = LastingStream(stream or sys.stdout)
        self._is_live = self._stream.isatty() if live is None else live
        self._recent: deque[GroupLine] = deque(maxlen=_ROWS_SHOWN)
        self._notes: deque[str] = deque(maxlen=3)
        self._experiences: list[str] = []
        self._done = self._before = self._restored = self._correct = self._answers = self._triggered = self._saved = 0
        self._clock = clock
        self._started = clock()
        self._waits = ""
        self._live: Live | None = None
        self._bar: tqdm[Any] | None = None

    def __enter__(self) -> Progress:
        if self._is_live:
            self._live = Live(
                console=_console(self._stream), get_renderable=self._panel, refresh_per_second=4, transient=False
            )
            self._live.__enter__()
        else:
            self._bar = tqdm(
                total=self._total,
                desc=self._label,
                file=LastingStream(sys.stderr),
                disable=None,  # unless it is a terminal: in a file, its redrawn lines would run into others
                dynamic_ncols=True,
                mininterval=1.0,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
        if self._bar is not None:
            self._bar.close()

    @property
    def groups(self) -> int:
        """Number of groups completed in this start."""
        return self._done

    def restored(self, count: int) -> None:
        """Report how many groups an earlier start has completed."""
        if count:
            self._before = count
            self.note(f"{self._label}: continuing after {count} completed groups")

    @property
    def totals(self) -> dict[str, int]:
        """Groups, right answers, answers, groups that triggered and experiences saved, of all starts."""
        return {
            "groups": self._done + self._before,
            "correct": self._correct,
            "answers": self._answers,
            "triggered": self._triggered,
            "saved": self._saved,
        }

    def restored_all(self, totals: Mapping[str, int]) -> None:
        """Report the :attr:`totals` of a run that earlier starts have completed."""
        self.restored(totals["groups"])
        self._correct, self._answers = totals["correct"], totals["answers"]
        self._triggered, self._saved = totals["triggered"], totals["saved"]
        if self._bar is not None:
            self._bar.update(totals["groups"])

    def restored_one(self, line: GroupLine) -> None:
        """Count a group that an earlier start has completed."""
        self._restored += 1
        self._before = max(self._before, self._restored)  # a learner that does not know their number beforehand
        self._correct += line.correct
        self._answers += line.size
        self._triggered += line.triggered
        self._saved += len(line.saved)
        if self._bar is not None:
            self._bar.update()

    def group_done(self, line: GroupLine) -> None:
        """Report a group that was scored and whose experiences were extracted."""
        self._done += 1
        self._correct += line.correct
        self._answers += line.size
        self._triggered += line.triggered
        self._saved += len(line.saved)
        self._experiences += line.saved
        self._recent.append(line)
        if self._bar is not None:
            self._bar.update()
        verdict = "Extract (σ>τ)" if line.triggered else "Skip (σ≤τ)"
        place = f"{line.problem_id}, {line.correct} of {line.size} right"
        self._say(f"  {self._label}: μ={line.mean:.3f}, σ={line.std:.3f} → {verdict}  [{place}]")
        for text in line.saved:
            self._say(f"    ✅ Saved: {text}")
        for text in line.refused:
            self._say(f"    ✗ Refused: {text}")
        if line.why_none:
            self._say(f"    – No experience: {line.why_none}")

    def set_total(self, total: int) -> None:
        """Set the number of groups once it is known."""
        self._total = total
        if self._bar is not None:
            self._bar.total = total
            self._bar.refresh()

    def note(self, text: str) -> None:
        """Print a line of its own, such as a warning."""
        self._notes.append(text)
        self._say(text)

    def summary(self, rows: Sequence[tuple[str, str | Path]]) -> None:
        """Print the final table. Call it after the context has ended.

        Args:
            rows: name and value. A path is printed in one piece below the table, so that it can be copied.
        """
        counters = self._counters()
        table = Table(title=self._label, box=box.SIMPLE, show_header=False)
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        share = f" ({self._correct / self._answers:.1%})" if self._answers else ""
        shown = [
            ("groups", f"{self._done}" + (f" + {self._before} completed before" if self._before else "")),
            ("right answers", f"{self._correct} of {self._answers}{share}"),
            ("groups with σ>τ", str(self._triggered)),
            ("experiences saved", str(self._saved)),
            *((("saved" if number == 0 else ""), text) for number, text in enumerate(self._experience_rows())),
            *rows,
            ("tokens", f"{counters.prompt_tokens:,} in, {counters.completion_tokens:,} out"),
            *((("spent" if number == 0 else ""), text) for number, text in enumerate(_spending(counters))),
            ("cost", _dollars(counters.cost_usd)),
            ("retries", str(counters.retries)),
            *(
                [("sent twice (--hedge)", f"{counters.hedged}, without the tokens of the slower ones")]
                if counters.hedged
                else []
            ),
            ("replies from the journal", str(counters.journal_hits)),
            ("time", f"{self._clock() - self._started:.0f} s"),
        ]
        for name, value in shown:
            if not isinstance(value, Path):
                table.add_row(Text(name), Text(harmless(value, keep="\n")))
        _console(self._stream).print(table)
        _print_unbroken([(name, str(value)) for name, value in shown if isinstance(value, Path)], self._stream)

    def _experience_rows(self) -> list[str]:
        """The saved experiences, which a live panel showed only while it was open; plain lines have them already."""
        if not self._is_live:
            return []
        more = len(self._experiences) - _LISTED
        return self._experiences[:_LISTED] + ([f"and {more} more"] if more > 0 else [])

    def _say(self, text: str) -> None:
        if self._bar is None:
            return
        tqdm.write(harmless(text), file=self._stream)
        self._stream.flush()

    def set_waiting(self, text: str) -> None:
        """Say what the run waits for, until it is called with an empty text."""
        if text and text != self._waits:
            self._say(text)
        self._waits = text

    def _panel(self) -> RenderableType:
        counters = self._counters()
        head = Table.grid(padding=(0, 2))
        done = self._done + self._before
        head.add_row(
            ProgressBar(total=self._total, completed=done, width=16),
            f"{done}/{'?' if self._total is None else self._total}",
            f"{self._correct / self._answers:.0%} right" if self._answers else "",
            f"{self._saved} experiences",
            self._times(),
        )
        flow = Text(
            f"in flight {counters.in_flight} · waiting {counters.waiting} · retries {counters.retries}"
            f" · from the journal {counters.journal_hits}"
        )
        spent = [Text(text, overflow="ellipsis", no_wrap=True) for text in _spending(counters)]
        rows = Table(box=None, padding=(0, 2), show_edge=False)
        for name, justify in (("problem", "left"), ("right", "right"), ("μ", "right"), ("σ", "right"), ("", "left")):
            rows.add_column(name, justify=justify)  # type: ignore[arg-type]
        for line in self._recent:
            rows.add_row(
                Text(harmless(line.problem_id)),
                f"{line.correct}/{line.size}",
                f"{line.mean:.3f}",
                f"{line.std:.3f}",
                Text(harmless(_outcome(line)), overflow="ellipsis", no_wrap=True),
            )
        newest = [Text(harmless(f"newest: {self._experiences[-1]}"), style="green")] if self._experiences else []
        waits = [Text(harmless(self._waits), style="yellow")] if self._waits else []
        notes = [Text(harmless(note), style="yellow") for note in self._notes]
        return Panel(Group(head, flow, *spent, rows, *newest, *waits, *notes), title=self._label, title_align="left")

    def _times(self) -> str:
        """Elapsed time, and the remaining time at the pace of this start."""
        elapsed = self._clock() - self._started
        left = None if self._total is None else self._total - self._done - self._before
        text = _duration(elapsed)
        if left and self._done:
            text += f", {_duration(elapsed / self._done * left)} left"
        return text


def print_next(commands: Sequence[tuple[str, str]], stream: TextIO | None = None) -> None:
    """Print what can be run next, by default to stdout: what each command does, and its command line."""
    _print_unbroken(commands, LastingStream(stream or sys.stdout))


def _print_unbroken(rows: Sequence[tuple[str, str]], stream: Any) -> None:
    """Print values that may be copied: only the terminal itself breaks their lines."""
    for name, value in rows:
        _console(stream).print(Text(f"  {name}: {harmless(value)}"), soft_wrap=True)


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _spending(counters: RequestCounters) -> list[str]:
    """Who has used which tokens, one line each."""
    return [
        f"{_WHO.get(purpose, purpose)}: {one.prompt_tokens:,} tokens in, {one.completion_tokens:,} out"
        + ("" if one.cost_usd is None else f", {_dollars(one.cost_usd)}")
        for purpose, one in counters.by_purpose.items()
    ]


def _outcome(line: GroupLine) -> str:
    """What a group has changed in the library."""
    if line.saved:
        return f"✅ {len(line.saved)} saved"
    if line.refused:
        return f"✗ {line.refused[0]}"
    return f"– {line.why_none}" if line.why_none else ""


def _console(stream: TextIO) -> Console:
    return Console(file=stream, width=None if stream.isatty() else 110, emoji=False)


def _dollars(cost: float | None) -> str:
    return "no prices configured" if cost is None else f"${cost:.4f}"
