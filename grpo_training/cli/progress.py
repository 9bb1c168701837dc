"""Progress of a learner: lines that stay, above a bar on a terminal; the same lines in a file or a pipe."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tqdm import tqdm

from grpo_training.cli.terminal_text import LastingStream, counted, fitted, harmless, shortened

if TYPE_CHECKING:
    from engine.llm.budget import Counters, Spent

_BAR = "{desc} {bar:10} {n_fmt}/{total_fmt} [{elapsed}<{remaining}]{postfix}"
NAME = 28
"""Columns of the name of a problem."""
_TOLD_FROM_S = 10.0
"""Seconds after which it is said what later groups wait for; and again each time that the wait has doubled."""
_WHO = {"rollout": "generator", "fusion": "critic", "analysis": "analyst"}
"""Purpose of a request -> who asks, where that is another word."""


@dataclass(frozen=True)
class GroupLine:
    """A scored group as it is shown and counted.

    Args:
        mean, std: of ``r_total``.
        triggered: whether an experience is asked for (σ>τ); None: nothing is learned.
        correct: number of right answers, of ``size``.
        executed: number of answers that a program gave, ``executed_right`` of them right.
        with_logprobs: number of answers with token ids and log-probs.
        has_experiences: whether its prompts have any.
    """

    mean: float
    std: float
    triggered: bool | None
    correct: int
    size: int
    executed: int = 0
    executed_right: int = 0
    with_logprobs: int = 0
    has_experiences: bool = False


@dataclass(frozen=True)
class Row:
    """A row of the final table. ``is_detail``: shown with ``--verbose`` only."""

    name: str
    value: str | Path
    is_detail: bool = False


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

    Attributes:
        totals: numbers of groups, answers and experiences saved over all starts, by name.
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
        self._done = self._before = 0
        self.totals: Counter[str] = Counter()
        self._clock = clock
        self._started = clock()
        self._open: dict[int, tuple[str, float, float]] = {}  # step: what it waits for, since when, told after
        self._scored: set[int] = set()  # open steps whose group is scored and stored
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

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def restored(self, groups: int, experiences: int) -> None:
        """Report what earlier starts have left: completed groups, and experiences in the library."""
        if groups:
            self._before = groups
            there = counted(groups, "group") if self._total is None else f"{groups} of {counted(self._total, 'group')}"
            self.note(f"{self._label}: continuing; {there} and {counted(experiences, 'experience')} are there")

    def restored_all(self, totals: Mapping[str, int]) -> None:
        """Report the :attr:`totals` of a run that earlier starts have completed."""
        self._before, self.totals = totals["groups"], Counter(totals)
        there = "its group is" if totals["groups"] == 1 else f"all {totals['groups']} groups are"
        self.note(f"{self._label}: {there} there; nothing is asked")
        self._advance(totals["groups"], is_new=False)

    def restored_one(self, step: int, line: GroupLine) -> None:
        """Count a group that an earlier start has scored."""
        self._await_analyst(step)
        self._count(line, is_new=False)
        restored = self.totals["groups"] - self._done
        self._before = max(self._before, restored)  # a learner that does not know their number beforehand

    def begun(self, step: int, problem_id: str) -> None:
        """Report that a group is worked on. Steps begin in their order."""
        self._open[step] = shortened(problem_id, NAME), self._clock(), _TOLD_FROM_S

    def scored(self, step: int, problem_id: str, line: GroupLine) -> None:
        """Report a group that was scored and stored."""
        self._done += 1
        self._count(line, is_new=True)
        self._await_analyst(step)
        verdict = "" if line.triggered is None else " → Extract (σ>τ)" if line.triggered else " → Skip (σ≤τ)"
        number = f"[{self._done + self._before}/{'?' if self._total is None else self._total}]"
        figures = f"μ={line.mean:.3f}, σ={line.std:.3f}{verdict}"
        right = f"{line.correct} of {line.size} right"
        self._say(f"{number} {self._label}: {figures} [{shortened(problem_id, NAME)}, {right}]")

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
        self._open.pop(step, None)
        self._scored.discard(step)
        self.totals["saved"] += len(saved)
        if not is_new:
            return
        name = shortened(problem_id, NAME)
        for text in saved:
            self._say(f"  ✅ Saved: {text}")
        for text in refused:
            self.note(f"  ✗ Refused: {text} [{name}]")
        if why_none:
            self.note(f"  – No experience: {why_none} [{name}]")

    def note(self, text: str) -> None:
        """Print a line of its own, such as a warning. Only the terminal itself breaks it, as it may hold a path."""
        self._say(f"{self._label}: {text.strip()}" if self._is_one_of_several and self._label not in text else text)

    def tick(self) -> None:
        """Redraw the bar, and name a problem for which groups after it wait. Call it about every second."""
        step = next(iter(self._open), None)
        if step is not None and self._scored - {step}:
            name, since, told_after = self._open[step]
            waited = self._clock() - since
            if waited >= told_after:
                self.note(f"waiting for {name}, {waited:.0f} s")
                self._open[step] = name, since, 2 * waited
        if self._bar is not None:
            self._bar.set_postfix_str(self._state())

    def summary(self, rows: Sequence[Row]) -> None:
        """Print the final table. Call it after the context has ended. A path is printed in one piece."""
        counters, totals, seconds = self._counters(), self.totals, self._clock() - self._started
        share = f" ({totals['correct'] / totals['answers']:.1%})" if totals["answers"] else ""
        executed = f"; executed {totals['executed right']} of {totals['executed']}" if totals["executed"] else ""
        before = f" + {self._before} completed before" if self._before else ""
        triggered = f"; σ>τ in {totals['triggered']}" if totals["could trigger"] else ""
        all_rows = [
            Row("right answers", f"{totals['correct']} of {totals['answers']}{share}{executed}"),
            Row("groups", f"{self._done}{before}, in {seconds:.0f} s{triggered}"),
            *([Row("experiences saved", str(totals["saved"]))] if totals["could trigger"] else []),
            *rows,
            Row(
                "cost of all" if self._is_one_of_several else "cost",
                f"{_dollars(counters.cost_usd)} ({_used(counters)}{counters.estimate_note})"
                + (" in this start" if self._before else ""),
            ),
            *(Row("" if index else "spent", text, is_detail=True) for index, text in enumerate(_spending(counters))),
            Row("retries", str(counters.retries), True),
            Row("replies from the journal", str(counters.journal_hits), True),
        ]
        texts: list[tuple[str, str]] = []
        paths: list[tuple[str, str]] = []
        for row in all_rows:
            if self._verbose or not row.is_detail:
                (paths if isinstance(row.value, Path) else texts).append((row.name, str(row.value)))
        wide = max(len(name) for name, _ in texts)
        with tqdm.external_write_mode(self._stream):  # the bars of others are drawn again below it
            print(self._label, file=self._stream)
            for name, value in texts:
                line = harmless(f"  {name:<{wide}}  {value}", keep="\n")
                print(fitted(line) if self._is_terminal else line, file=self._stream)
        print_next(paths, self._stream)

    def _await_analyst(self, step: int) -> None:
        if step in self._open:
            name, _, _ = self._open[step]
            self._scored.add(step)
            self._open[step] = f"the analyst about {name}", self._clock(), _TOLD_FROM_S

    def _count(self, line: GroupLine, *, is_new: bool) -> None:
        self.totals.update(
            {
                "groups": 1,
                "with experiences": int(line.has_experiences),
                "correct": line.correct,
                "answers": line.size,
                "could trigger": int(line.triggered is not None),
                "triggered": int(line.triggered or False),
                "executed": line.executed,
                "executed right": line.executed_right,
                "with log-probs": line.with_logprobs,
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
        counters, totals = self._counters(), self.totals
        tokens = f"{counters.prompt_tokens + counters.completion_tokens:,} tokens"
        spent = tokens if counters.cost_usd is None else _dollars(counters.cost_usd)
        shares = [f"{totals['correct'] / totals['answers']:.0%} right"] if totals["answers"] else []
        retries = [f"{counters.retries} retries"] if counters.retries else []
        at_most = "at most " if counters.estimated else ""
        saved, asked = f"{totals['saved']} saved", f"{counters.in_flight} asked"
        return " · ".join([*shares, saved, at_most + spent, asked, *retries])


def print_next(rows: Sequence[tuple[str, str]], stream: TextIO | None = None) -> None:
    """Print names and values that may be copied, by default to stdout: only the terminal itself breaks their lines."""
    for name, value in rows:
        print(f"  {name}: {harmless(value)}", file=stream)


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


def _dollars(cost: float | None) -> str:
    return "no prices configured" if cost is None else f"${cost:.4f}"
