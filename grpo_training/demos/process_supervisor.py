"""Commands of this project that run beside each other, with one view of them all."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.errors import ScaffoldError
from grpo_training.cli.terminal_text import harmless

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import TextIO

    from rich.console import RenderableType

_POLL_S = 0.1
_LINES_EVERY_S = 5.0
_STOP_S = 10.0
_TAIL_BYTES = 8192
_TAIL_LINES = 12


class CommandFailedError(ScaffoldError, RuntimeError):
    """One of the commands failed; its exit code is that of the whole."""

    def __init__(self, command: Command) -> None:
        status = command.status or 0
        # A process that a signal ended: its negative status becomes what a shell would say.
        self.exit_code = 128 - status if status < 0 else status
        super().__init__(
            f"{command.name} ended with exit code {self.exit_code}",
            why="\n  ".join(command.tail(_TAIL_LINES)),
            fix=f"All it said stands in {command.log}.",
        )


@dataclass
class Command:
    """A command of this project as a process of its own.

    Args:
        name: what people call it.
        arguments: the module's name below ``grpo_training``, then its flags; paths are absolute.
        log: where its output goes, which is written anew.
        counts: what is known of its work so far, in a few words.
    """

    name: str
    arguments: Sequence[str]
    log: Path
    counts: Callable[[], str]
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start it. It gets no Ctrl-C of the terminal, so that there is one place that decides on the end."""
        module, *flags = self.arguments
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"grpo_training.{module}", *flags],
                env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1", "TQDM_DISABLE": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs or is not started."""
        return self._process.poll() if self._process else None

    @property
    def runs(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def tail(self, lines: int) -> list[str]:
        """The last lines of its output. They may quote a model: nothing in them can steer a terminal."""
        try:
            with self.log.open("rb") as stream:
                stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL_BYTES))
                text = stream.read().decode(errors="replace")
        except FileNotFoundError:
            return []
        said = [line.strip() for line in text.splitlines() if line.strip()][-lines:]
        return [harmless(line) for line in said]

    def stop(self) -> None:
        """Ask it to end. It loses nothing by that."""
        if self._process is not None and self.runs:
            self._process.terminate()

    def wait_stopped(self, patience_s: float) -> None:
        """Wait until it has ended; after so many seconds end it for it."""
        if self._process is None:
            return
        try:
            self._process.wait(patience_s)
        finally:
            if self.runs:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


def run_side_by_side(
    commands: Sequence[Command],
    *,
    ready: Callable[[Command], bool],
    check: Callable[[], None],
    stream: TextIO | None = None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run commands until all have ended. However this ends, none of them runs on.

    Args:
        commands: the last one is started when all others are ready.
        ready: whether the last may count on a command's work (it is asked until then, or until it has ended).
        check: raises where there is no use in going on, such as for a server that is gone.
        stream: where the view goes, stdout by default.
        sleep: takes seconds.
        clock: gives seconds.

    Raises:
        CommandFailedError: one failed; the others were stopped.
    """
    *first, last = commands
    waiting = {command.name: command for command in first}
    is_last_started = False
    try:
        with _view(commands, stream or sys.stdout, clock) as refresh:
            for command in first:
                command.start()
            while not is_last_started or any(command.runs for command in commands):
                sleep(_POLL_S)
                check()  # first: without what they need the commands fail too, and say less of the cause
                check_all(commands)
                waiting = {name: command for name, command in waiting.items() if command.runs and not ready(command)}
                if not waiting and not is_last_started:
                    last.start()
                    is_last_started = True
                refresh(False)
            check_all(commands)
            refresh(True)
    finally:
        stop_all(commands)


def check_all(commands: Sequence[Command]) -> None:
    """Raise for the first command that has failed."""
    for command in commands:
        if command.status:
            raise CommandFailedError(command)


def stop_all(commands: Sequence[Command]) -> None:
    """End all that still run: politely, then not; also where one is interrupted meanwhile."""
    for command in commands:
        command.stop()
    until = time.monotonic() + _STOP_S
    try:
        for command in commands:
            with contextlib.suppress(subprocess.TimeoutExpired):
                command.wait_stopped(max(0.0, until - time.monotonic()))
    finally:
        for command in commands:
            with contextlib.suppress(subprocess.TimeoutExpired):
                command.wait_stopped(0.0)


# ------------------------------------------------------------------ the view


@contextlib.contextmanager
def _view(commands: Sequence[Command], stream: TextIO, clock: Callable[[], float]) -> Iterator[Callable[[bool], None]]:
    """A live table on a terminal, elsewhere now and then a line for each command that has moved on."""
    if stream.isatty():
        from rich.console import Console
        from rich.live import Live

        console = Console(file=stream)
        with Live(console=console, get_renderable=lambda: _table(commands), refresh_per_second=4, transient=True):
            yield lambda is_last: None
        console.print(_table(commands))
        return
    said: dict[str, str] = {}
    began = before = clock()

    def refresh(is_last: bool) -> None:
        nonlocal before
        now = clock()
        if now - before < _LINES_EVERY_S and not is_last:
            return
        before = now
        for command in commands:
            counts = command.counts()
            if counts and said.get(command.name) != counts:
                said[command.name] = counts
                print(f"  {now - began:4.0f} s  {command.name}: {counts}", file=stream, flush=True)

    yield refresh


def _table(commands: Sequence[Command]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, expand=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis", style="dim")
    for command in commands:
        state = "·" if not command.runs and command.status is None else "⏵" if command.runs else "✓"
        said = command.tail(1) if command.runs else []
        table.add_row(f"{state} {command.name}", Text(command.counts() or "starts"), Text("".join(said)))
    return table
