"""Progress of a learner: lines that stay, above a bar on a terminal; the same lines in a file or a pipe."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.text import Text
from tqdm import tqdm

from grpo_training.cli.terminal_text import LastingStream, counted, harmless, shortened

if TYPE_CHECKING:
    from engine.llm.budget import Counters, Spent

_BAR = "{desc} {bar:10} {n_fmt}/{total_fmt} [{elapsed}<{remaining}]{postfix}"
NAME = 28
"""Columns of the name of a problem."""
_TOLD_FROM_S = 10.0
_SHORTEST_NAME = 10
"""The fewest columns of the name of a problem in a line."""
_WHO = {"rollout": "generator", "fusion": "critic", "analysis": "analyst"}
"""Purpose of a request -> who asks, where that is another word."""


@dataclass(frozen=True)
class GroupLine:
    """A scored group. ``mean`` and ``std`` are of ``r_total``.

    ``triggered`` is whether an experience is asked for (σ>τ); None: nothing is learned. ``executed`` is whether it is
    right, for each answer that a program gave.
    """

    mean: float
    std: float
    triggered: bool | None
    correct: int
    size: int
    executed: Sequence[bool] = ()


@dataclass(frozen=True)
class Row:
    """A row of the final table. ``is_detail``: shown with ``--verbose`` only."""

    name: str
    value: str | Path
    is_detail: bool = False


class Stragglers:
    """Names the first step that is not complete, while groups of later steps wait for it.

    Args:
        clock: monotonic time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[int, tuple[str, float]] = {}  # in the order of the steps: name and start
        self._scored: set[int] = set()
        self._told = 0.0  # seconds of the wait that was told last

    def begin(self, step: int, name: str) -> None:
        """A step is worked on. Steps begin in their order."""
        self._open[step] = (name, self._clock())
        if step == next(iter(self._open)):
            self._told = 0.0

    def score(self, step: int) -> None:
        """The group of a step is scored and stored; its analyst may still be asked."""
        if step in self._open:
            self._scored.add(step)
            self.begin(step, self._open[step][0])  # another wait: for its analyst

    def end(self, step: int) -> None:
        """A step is complete."""
        if step == next(iter(self._open), None):
            self._told = 0.0
        self._open.pop(step, None)
        self._scored.discard(step)

    def news(self) -> str:
        """What later groups wait for, such as ``waiting for aime2024_001, 10 s``.

        It is told after 10 s and then each time the wait has doubled; else the text is empty.
        """
        step = next(iter(self._open), None)
        if step is None or not self._scored - {step}:
            return ""
        waited = self._clock() - self._open[step][1]
        if waited < max(_TOLD_FROM_S, 2 * self._told):
            return ""
        self._told = waited
        what = "the analyst about " if step in self._scored else ""
        return f"waiting for {what}{shortened(self._open[step][0], NAME)}, {self._told:.0f} s"


class Progress:
    """Displays a run: a line for each group and experience, above a bar if the output is a terminal.

    Use as a context manager.

    Args:
        label: the learner (``generator_1``).
        total: number of groups; None while it is not known.
        counters: returns the client's counters.
        stream: where lines are written, stdout by default. If it is no terminal and stderr is one, a bar is there.
        verbose: the final table has all rows.
        is_one_of_several: others are displayed beside it, with the same counters: its lines say whose they are.
        clock: monotonic time in seconds.
    """

    def __init__(
        self,
        label: str,
        total: int | None,
        counters: Callable[[], Counters],
        *,
        stream: TextIO | None = None,
        verbose: bool = False,
        is_one_of_several: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label, self._total, self._counters, self._verbose = label, total, counters, verbose
        self._is_one_of_several = is_one_of_several
        self._stream: Any = LastingStream(stream or sys.stdout)
        self._is_terminal = self._stream.isatty()
        self._done = self._before = self._restored = self._saved = 0
        self._totals: Counter[str] = Counter()
        self._clock = clock
        self._started = clock()
        self._straggler = Stragglers(clock)
        self._waits = ""
        self._bar: tqdm[Any] | None = None

    def __enter__(self) -> Progress:
        self._bar = tqdm(
            total=self._total,
            desc=self._label,
            file=self._stream if self._is_terminal else LastingStream(sys.stderr),
            disable=None,  # unless it is a terminal: in a file, its redrawn lines would run into others
            dynamic_ncols=True,
            leave=False,
            smoothing=0,  # the time that is left follows from the mean speed
            bar_format=_BAR,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    @property
    def groups(self) -> int:
        """Number of groups completed in this start."""
        return self._done

    def restored(self, groups: int, experiences: int) -> None:
        """Report what earlier starts have left: completed groups, and experiences in the library."""
        if groups:
            self._before = groups
            there = counted(groups, "group") if self._total is None else f"{groups} of {counted(self._total, 'group')}"
            self.note(f"{self._label}: continuing; {there} and {counted(experiences, 'experience')} are there")

    @property
    def totals(self) -> dict[str, int]:
        """Groups, answers, right ones, executed ones, groups that triggered, experiences saved, of all starts."""
        return {"groups": self._done + self._before, "saved": self._saved, **self._totals}

    def restored_all(self, totals: Mapping[str, int]) -> None:
        """Report the :attr:`totals` of a run that earlier starts have completed."""
        self._before, self._saved = totals["groups"], totals["saved"]
        self._totals = Counter({name: number for name, number in totals.items() if name not in ("groups", "saved")})
        there = "its group is" if totals["groups"] == 1 else f"all {totals['groups']} groups are"
        self.note(f"{self._label}: {there} there; nothing is asked")
        self._advance(totals["groups"], is_new=False)

    def restored_one(self, step: int, line: GroupLine) -> None:
        """Count a group that an earlier start has scored."""
        self._straggler.score(step)
        self._restored += 1
        self._before = max(self._before, self._restored)  # a learner that does not know their number beforehand
        self._count(line, is_new=False)

    def begun(self, step: int, problem_id: str) -> None:
        """Report that a group is worked on."""
        self._straggler.begin(step, problem_id)

    def scored(self, step: int, problem_id: str, line: GroupLine) -> None:
        """Report a group that was scored and stored."""
        self._done += 1
        self._count(line, is_new=True)
        self._straggler.score(step)
        verdict = "" if line.triggered is None else " → Extract (σ>τ)" if line.triggered else " → Skip (σ≤τ)"
        number = f"[{self._done + self._before}/{'?' if self._total is None else self._total}]"
        begin = f"{number} {self._label}: μ={line.mean:.3f}, σ={line.std:.3f}{verdict} ["
        end = f", {line.correct} of {line.size} right]"
        width = NAME
        if self._is_terminal:
            columns = shutil.get_terminal_size().columns - len(begin) - len(end)
            width = max(_SHORTEST_NAME, min(NAME, columns))
        self._say(f"{begin}{shortened(problem_id, width)}{end}")

    def ended(
        self,
        step: int,
        problem_id: str,
        *,
        saved: Sequence[str] = (),
        refused: Sequence[str] = (),
        why_none: str = "",
        is_new: bool = True,
    ) -> None:
        """Report what a group has changed in the library.

        Args:
            step: of the group.
            problem_id: of the group.
            saved, refused: experiences, each with its id if it has one.
            why_none: why a group that triggered has neither.
            is_new: False if an earlier start has reported it.
        """
        self._straggler.end(step)
        self._saved += len(saved)
        if not is_new:
            return
        name = shortened(problem_id, NAME)
        for text in saved:
            self._say(f"  ✅ Saved: {text}")
        for text in refused:
            self.note(f"  ✗ Refused: {text} [{name}]")
        if why_none:
            self.note(f"  – No experience: {why_none} [{name}]")

    def set_total(self, total: int) -> None:
        """Set the number of groups once it is known."""
        self._total = total
        if self._bar is not None:
            self._bar.total = total
            self._bar.refresh()

    def note(self, text: str) -> None:
        """Print a line of its own, such as a warning. Only the terminal itself breaks it, as it may hold a path."""
        self._say(f"{self._label}: {text.strip()}" if self._is_one_of_several and self._label not in text else text)

    def set_waiting(self, text: str) -> None:
        """Say what the run waits for, until it is called with an empty text."""
        if text and text != self._waits:
            self.note(text)
        self._waits = text

    def tick(self) -> None:
        """Redraw the bar, and name a problem for which groups after it wait. Call it about every second."""
        if text := self._straggler.news():
            self.note(text)
        if self._bar is not None:
            self._bar.set_postfix_str(self._state())

    def summary(self, rows: Sequence[Row]) -> None:
        """Print the final table. Call it after the context has ended. A path is printed in one piece."""
        counters, totals, seconds = self._counters(), self._totals, self._clock() - self._started
        share = f" ({totals['correct'] / totals['answers']:.1%})" if totals["answers"] else ""
        executed = f"; executed {totals['executed right']} of {totals['executed']}" if totals["executed"] else ""
        before = f" + {self._before} completed before" if self._before else ""
        triggered = f"; σ>τ in {totals['triggered']}" if totals["could trigger"] else ""
        shown = [
            Row("right answers", f"{totals['correct']} of {totals['answers']}{share}{executed}"),
            Row("groups", f"{self._done}{before}, in {seconds:.0f} s{triggered}"),
            *([Row("experiences saved", str(self._saved))] if totals["could trigger"] else []),
            *rows,
            Row(
                "cost of all" if self._is_one_of_several else "cost",
                f"{_dollars(counters.cost_usd)} ({_used(counters)}{counters.estimate_note})"
                + (" in this start" if self._before else ""),
            ),
            *(Row("" if place else "spent", text, is_detail=True) for place, text in enumerate(_spending(counters))),
            Row("retries", str(counters.retries), True),
            Row("replies from the journal", str(counters.journal_hits), True),
        ]
        shown = [row for row in shown if self._verbose or not row.is_detail]
        with tqdm.external_write_mode(self._stream):  # the bars of others are drawn again below it
            self._print_table(shown)

    def _print_table(self, rows: Sequence[Row]) -> None:
        names = [row.name for row in rows if not isinstance(row.value, Path)]
        console, wide = _console(self._stream), max(map(len, names))
        console.print(Text(self._label, style="bold"))
        for row in rows:
            if not isinstance(row.value, Path):
                value = Text(harmless(row.value, keep="\n"))
                # Nothing is wrapped in a file, where a line may be searched for.
                lines = value.wrap(console, console.width - wide - 4) if self._stream.isatty() else value.split("\n")
                for place, line in enumerate(lines):
                    line.rstrip()
                    console.print(Text(f"  {'' if place else row.name:<{wide}}  ") + line, soft_wrap=True)
        _print_unbroken([(row.name, str(row.value)) for row in rows if isinstance(row.value, Path)], self._stream)

    def _count(self, line: GroupLine, *, is_new: bool) -> None:
        self._totals.update(
            {
                "correct": line.correct,
                "answers": line.size,
                "could trigger": int(line.triggered is not None),
                "triggered": int(line.triggered or False),
                "executed": len(line.executed),
                "executed right": sum(line.executed),
            }
        )
        self._advance(1, is_new=is_new)

    def _advance(self, groups: int, *, is_new: bool) -> None:
        if self._bar is None or self._bar.disable:
            return
        if not is_new:  # the speed is that of this start
            self._bar.initial += groups
        self._bar.set_postfix_str(self._state(), refresh=False)
        self._bar.update(groups)

    def _say(self, text: str) -> None:
        if self._bar is not None:
            tqdm.write(harmless(text), file=self._stream)
            self._stream.flush()

    def _state(self) -> str:
        """What the bar says beside numbers and times."""
        counters, totals = self._counters(), self._totals
        tokens = f"{counters.prompt_tokens + counters.completion_tokens:,} tokens"
        spent = tokens if counters.cost_usd is None else _dollars(counters.cost_usd)
        shares = [f"{totals['correct'] / totals['answers']:.0%} right"] if totals["answers"] else []
        retries = [f"{counters.retries} retries"] if counters.retries else []
        at_most = "at most " if counters.estimated else ""
        return " · ".join([*shares, f"{self._saved} saved", at_most + spent, f"{counters.in_flight} asked", *retries])


def print_next(commands: Sequence[tuple[str, str]], stream: TextIO | None = None) -> None:
    """Print what can be run next, by default to stdout: what each command does, and its command line."""
    _print_unbroken(commands, LastingStream(stream or sys.stdout))


def _print_unbroken(rows: Sequence[tuple[str, str]], stream: Any) -> None:
    """Print values that may be copied: only the terminal itself breaks their lines."""
    for name, value in rows:
        _console(stream).print(Text(f"  {name}: {harmless(value)}"), soft_wrap=True)


def _used(spent: Spent) -> str:
    cached = f" ({spent.cached_tokens / spent.prompt_tokens:.0%} cached)" if spent.cached_tokens else ""
    thought = f" ({spent.reasoning_tokens:,} of them thinking)" if spent.reasoning_tokens else ""
    return f"{spent.prompt_tokens:,} tokens in{cached}, {spent.completion_tokens:,} out{thought}"


def _spending(counters: Counters) -> list[str]:
    """Who has used which tokens, one line each."""
    return [
        f"{_WHO.get(purpose, purpose)}: {_used(spent)}"
        + ("" if spent.cost_usd is None else f", {_dollars(spent.cost_usd)}")
        + spent.estimate_note
        for purpose, spent in counters.by_purpose.items()
    ]


def _console(stream: TextIO) -> Console:
    return Console(file=stream, width=None if stream.isatty() else 110, emoji=False)


def _dollars(cost: float | None) -> str:
    return "no prices configured" if cost is None else f"${cost:.4f}"
