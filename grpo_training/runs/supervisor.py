"""Runs several commands of this project in parallel and shows their progress."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from engine.errors import ScaffoldError
from grpo_training.cli.terminal_text import harmless
from grpo_training.runs.guarded_process import start_guarded

_POLL_S = 0.1
_LINE_INTERVAL_S = 5.0
_STOP_TIMEOUT_S = 10.0
_TAIL_BYTES = 8192
_TAIL_LINES = 12


class CommandFailedError(ScaffoldError, RuntimeError):
    """A command failed; its exit code becomes that of the supervising command."""

    def __init__(self, command: Command) -> None:
        status = command.status or 0
        # A negative status is the signal that ended the process; shells report 128 + the signal's number.
        self.exit_code = 128 - status if status < 0 else status
        super().__init__(
            f"{command.name} ended with exit code {self.exit_code}",
            why="\n  ".join(command.tail(_TAIL_LINES)),
            fix=f"Its complete output is in {command.log}.",
        )


@dataclass
class Command:
    """A command of this project in its own process.

    Args:
        name: shown in the view and in messages.
        arguments: the name of the module in ``grpo_training``, followed by its flags; paths are absolute.
        log: file for its output; overwritten.
        progress: its progress in a few words.
    """

    name: str
    arguments: Sequence[str]
    log: Path
    progress: Callable[[], str]
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start the process. Only the supervisor stops it: it does not receive Ctrl-C from the terminal.

        It ends with the supervisor, also if that is killed.
        """
        module, *flags = self.arguments
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as output:
            self._process = start_guarded(
                [sys.executable, "-m", f"grpo_training.{module}", *flags],
                output=output,
                environment={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1", "TQDM_DISABLE": "1"},
            )

    @property
    def status(self) -> int | None:
        """Its exit status; None before it was started and while it runs."""
        return self._process.poll() if self._process else None

    @property
    def runs(self) -> bool:
        """Whether it was started and has not exited."""
        return self._process is not None and self._process.poll() is None

    def tail(self, lines: int) -> list[str]:
        """The last lines of its output, with control characters escaped: they may quote a model."""
        try:
            with self.log.open("rb") as stream:
                stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL_BYTES))
                text = stream.read().decode(errors="replace")
        except FileNotFoundError:
            return []
        return [harmless(line.strip()) for line in text.splitlines() if line.strip()][-lines:]

    def stop(self) -> None:
        """Send SIGTERM. The commands store each result at once, so nothing is lost."""
        if self._process is not None and self.runs:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)

    def wait_or_kill(self, timeout_s: float) -> None:
        """Wait until the process has exited; kill its process group after the timeout."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout_s)
        finally:
            if self.runs:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


def supervise(
    commands: Sequence[Command],
    *,
    ready: Callable[[Command], bool] = lambda command: True,
    check: Callable[[], None] = lambda: None,
    stream: TextIO | None = None,
) -> None:
    """Run commands until all have exited. On any error, all of them are stopped.

    Args:
        commands: the last one is started when all others are ready or have exited.
        ready: whether the last command may be started as far as this one is concerned.
        check: raises if continuing is pointless, for example because a server has exited.
        stream: where progress is shown; stdout by default.

    Raises:
        CommandFailedError: a command failed; the others were stopped.
    """
    *first, last = commands
    waiting = {command.name: command for command in first}
    is_last_started = False
    try:
        with _view(commands, stream or sys.stdout) as refresh:
            for command in first:
                command.start()
            while not is_last_started or any(command.runs for command in commands):
                time.sleep(_POLL_S)
                check()  # before check_all: it names the cause for which the commands fail as well
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
    """Raise CommandFailedError for the first command that has failed."""
    for command in commands:
        if command.status:
            raise CommandFailedError(command)


def stop_all(commands: Sequence[Command]) -> None:
    """Terminate all running commands and kill them after a timeout, also if this is interrupted."""
    for command in commands:
        command.stop()
    until = time.monotonic() + _STOP_TIMEOUT_S
    try:
        for command in commands:
            with contextlib.suppress(subprocess.TimeoutExpired):
                command.wait_or_kill(max(0.0, until - time.monotonic()))
    finally:
        for command in commands:
            with contextlib.suppress(subprocess.TimeoutExpired):
                command.wait_or_kill(0.0)


@contextlib.contextmanager
def _view(commands: Sequence[Command], stream: TextIO) -> Iterator[Callable[[bool], None]]:
    """A live table on a terminal; elsewhere, every few seconds, a line for each command with new progress."""
    if stream.isatty():
        console = Console(file=stream)
        with Live(console=console, get_renderable=lambda: _table(commands), refresh_per_second=4, transient=True):
            yield lambda is_last: None
        console.print(_table(commands))
        return
    shown: dict[str, str] = {}
    began = before = time.monotonic()

    def refresh(is_last: bool) -> None:
        nonlocal before
        now = time.monotonic()
        if now - before < _LINE_INTERVAL_S and not is_last:
            return
        before = now
        for command in commands:
            progress = command.progress()
            if progress and shown.get(command.name) != progress:
                shown[command.name] = progress
                print(f"  {now - began:4.0f} s  {command.name}: {progress}", file=stream, flush=True)

    yield refresh


def _table(commands: Sequence[Command]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, expand=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis", style="dim")
    for command in commands:
        state = "·" if not command.runs and command.status is None else "⏵" if command.runs else "✓"
        last_line = command.tail(1) if command.runs else []
        table.add_row(f"{state} {command.name}", Text(command.progress() or "starting"), Text("".join(last_line)))
    return table
