"""The parent side of a program's process: messages, output and time limits."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.sandbox.channel import CHUNK, HEAD_BYTES, ConfinedProcess, packed
from engine.sandbox.inside import wire
from engine.sandbox.zygote_process import SandboxError, Zygote

_START_S = 20.0
_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 0.005, 0.25
_random = random.SystemRandom()
"""Draws the waits. A program that knew their ends could want a processor at these moments, and sleep in between."""
_LATE_S = 1.0
"""A wait that ends later than this was stopped together with this process (Ctrl-Z), and so was the program."""
_LATE_ANSWER_S = 0.1
"""Part of the wait for an answer that is not counted: threads of this process wait for each other to read it."""
_LONGEST_HELD_UP_S = 600.0
_LONGEST_DISK_SLEEP_S = 10.0
"""Time in state D that is excused. A machine short of memory causes such waits, but a program can cause them too."""
_HELD_UP = frozenset("RTt")
"""States of a thread that wants a processor or is stopped."""
_DISK_SLEEP = "D"
_STATE, _NICE, _POLICY = 0, 16, 38
"""Places in ``/proc/PID/task/TID/stat`` after the name, see ``proc(5)``."""

WALL_FACTOR = 6
"""The time for which a program may be waited for, as a multiple of its limit of processor time.

Time in which it wants a processor or is stopped does not count, nor does time in which this process is stopped.
"""


@dataclass(frozen=True)
class ProgramLimits:
    """ProgramLimits of one program.

    Args:
        time_s: processor seconds for loading the program, and for each requested value or run. It may sleep for
            ``WALL_FACTOR`` times that.
        memory_mb: address space in MiB.
        output_bytes: size of the printed text, and of each returned value in its encoded form.
        total_s: processor seconds in total, with the same bound of sleep.
    """

    time_s: float = 5.0
    memory_mb: int = 1024
    output_bytes: int = 1 << 20
    total_s: float = 30.0


Failure = Literal["runtime_error", "timeout", "memory", "output_limit", "forbidden", "no_entry_point"]
"""Why a program returned no value."""

_REPORTED_FROM_INSIDE: tuple[Failure, ...] = ("runtime_error", "memory", "forbidden", "no_entry_point")


class ProgramStopped(Exception):  # noqa: N818 - a result of the program, not an error of this package
    """The program stopped, or was stopped, before it replied.

    Args:
        failure: the reason.
        text: a description of the reason.
    """

    def __init__(self, failure: Failure, text: str) -> None:
        super().__init__(text)
        self.failure, self.text = failure, text


def read_message(frame: bytes) -> dict[str, Any]:
    """Parse a frame from a program's process. The program may have forged it.

    Raises:
        MalformedError: the frame is not a JSON object.
    """
    message = wire.loads(frame)
    if not isinstance(message, dict):
        raise wire.MalformedError("a message is not an object")
    return message


def reported_failure(message: dict[str, Any]) -> tuple[Failure, str] | None:
    """The failure that a message reports, with its text; None if the message has a value.

    Raises:
        MalformedError: it is neither a value nor a failure that ``inside.runner`` reports.
    """
    if "value" in message:
        return None
    failure = next((known for known in _REPORTED_FROM_INSIDE if known == message.get("error")), None)
    text = message.get("text", "")
    if failure is None or not isinstance(text, str):
        raise wire.MalformedError("a message has neither a value nor an error")
    return failure, text[:300]


@dataclass(frozen=True)
class _Deadline:
    """Until when to wait: a reading of ``waited_s``, and of the program's processor time (None: no limit)."""

    waited: float
    cpu: float | None


class ProgramProcess(ConfinedProcess):
    """A child of a zygote that runs one program. A context manager; on exit all processes of the child are killed.

    Args:
        zygote: the parent; it must have no other child.
        kind: ``calls``, ``main`` or ``remote``; see ``inside/runner.py``.
        program: the source to run.
        setup: for ``remote``, source that is run before the program.
        limits: limits of memory, output and time.
        stdin: the standard input; None for an empty one.
        entry_point: a name that the program must define; for ``remote``, a function of the other process.

    Attributes:
        printed: the output so far.
        waited_s: seconds for which it was waited for while it slept; the waits before an answer count too.

    Raises:
        SandboxError: from any method, if the sandbox itself fails.
    """

    def __init__(
        self,
        zygote: Zygote,
        kind: Literal["calls", "main", "remote"],
        program: str,
        *,
        limits: ProgramLimits,
        setup: str = "",
        stdin: bytes | None = None,
        entry_point: str | None = None,
    ) -> None:
        super().__init__(zygote, _as_file(stdin), limits.memory_mb)
        self._zygote, self._limits, self._unsent = zygote, limits, bytearray()
        self.printed = bytearray()
        self.waited_s = self._held_up_s = self._disk_sleep_s = self._cpu_at_start = 0.0
        self._channel.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._channel, select.POLLIN)
        self._poll.register(self._stdout, select.POLLIN)
        self._priority = next(((nice, policy) for _, nice, policy in self._threads()), None)  # it waits for its job
        job = {"kind": kind, "program": program, "setup": setup, "entry_point": entry_point}
        self.send({**job, "max_items": limits.output_bytes, "remote": [entry_point] if entry_point else []})
        self._open = {self._channel.fileno(), self._stdout}

    def __enter__(self) -> ProgramProcess:
        """Wait until the child is confined. The time limits start afterwards."""
        try:
            if json.loads(self.receive(_START_S, is_starting=True)) != {"started": True}:
                raise SandboxError("a child did not start")
        except BaseException:
            self.__exit__()
            raise
        self._cpu_at_start = self.cpu_s()
        self.waited_s = self._held_up_s = self._disk_sleep_s = 0.0
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if not self._zygote.dead:
                self.end(ending=False)
        finally:
            self._channel.close()
            os.close(self._stdout)

    def cpu_s(self) -> float:
        """Processor seconds that the program has used since its start; of one that is gone, as they were read last."""
        return super().cpu_s() - self._cpu_at_start

    @property
    def unread(self) -> bool:
        """Whether unread bytes were received. After the last reply such bytes are forged."""
        return bool(self._received)

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message. As much as the channel accepts is written now, the rest while replies are awaited."""
        self.send_raw(json.dumps(message).encode())

    def send_raw(self, data: bytes) -> None:
        """Queue a message that is already encoded."""
        self._unsent += packed(data)
        self._flush()

    def receive(self, time_s: float, *, is_starting: bool = False) -> bytes:
        """The next frame, for :func:`read_message`.

        Args:
            time_s: time limit in processor seconds, as in ``ProgramLimits``.
            is_starting: whether the program has not started yet, so that a failure is a failure of the sandbox.

        Raises:
            ProgramStopped: the time limit is reached, the output or the frame is too long, or the process has exited.
        """
        until, last_s = self._deadline(time_s, is_starting), 0.0
        while (frame := self._take_frame(self._limits.output_bytes)) is None:
            if self._channel.fileno() not in self._open:
                raise self._early_exit(is_starting)
            before = self.waited_s
            self._pump(until)
            last_s = self.waited_s - before
        self.waited_s -= min(last_s, _LATE_ANSWER_S)
        return frame

    def wait_for_end(self, time_s: float) -> None:
        """Read the output into ``printed`` until the process has closed all its descriptors."""
        until = self._deadline(time_s)
        while self._open:
            self._pump(until)

    def _deadline(self, time_s: float, is_starting: bool = False) -> _Deadline:
        if is_starting:
            return _Deadline(self.waited_s + time_s, None)
        return _Deadline(self.waited_s + WALL_FACTOR * time_s, self.cpu_s() + time_s)

    def _pump(self, until: _Deadline) -> None:
        """Wait for the next event and read or write every descriptor that is ready."""
        events: list[tuple[int, int]] = []
        while not events:
            sleep_left_s = until.waited - self.waited_s
            cpu_left_s = sleep_left_s if until.cpu is None else until.cpu - self.cpu_s()
            if sleep_left_s <= 0 or cpu_left_s <= 0:
                if until.cpu is None:
                    raise SandboxError("a child did not start in time")
                self.end(ending=False)
                limit = "limit of processor time" if cpu_left_s <= 0 else "bound of wall-clock time"
                raise ProgramStopped("timeout", f"{limit} reached")
            wait_s = min(sleep_left_s, max(cpu_left_s, _SHORTEST_WAIT_S), _LONGEST_WAIT_S) * _random.uniform(0.2, 1)
            began = time.monotonic()
            events = self._poll.poll(1000 * wait_s)
            took_s = time.monotonic() - began
            self._count(took_s if took_s < wait_s + _LATE_S else wait_s, is_answered=bool(events))
        for fd, event in events:
            if event & select.POLLOUT:
                self._flush()
            if event & (select.POLLIN | select.POLLHUP | select.POLLERR):
                self._read(fd)

    def _count(self, took_s: float, *, is_answered: bool) -> None:
        """Count a wait as sleep of the program, unless the machine holds it up."""
        states = "" if is_answered else self._states()
        if _HELD_UP & set(states):
            self._held_up_s += took_s
            if self._held_up_s > _LONGEST_HELD_UP_S:
                raise SandboxError("a program got no processor, or was stopped, for too long")
        elif _DISK_SLEEP in states and self._disk_sleep_s < _LONGEST_DISK_SLEEP_S:
            self._disk_sleep_s += took_s
        else:
            self.waited_s += took_s

    def _states(self) -> str:
        """The states of its threads; empty if one has another priority than at its start.

        A program that lowers its own priority could wait for a processor for as long as the machine is busy.
        """
        threads = list(self._threads())
        is_lower = any((nice, policy) != self._priority for _, nice, policy in threads) and self._priority is not None
        return "" if is_lower else "".join(state for state, _, _ in threads)

    def _threads(self) -> Iterator[tuple[str, str, str]]:
        """State, nice value and scheduling policy of its threads; nothing where the kernel does not tell."""
        tasks = Path(f"/proc/{self._pid}/task")
        with contextlib.suppress(OSError):
            for thread in sorted(tasks.iterdir()):
                fields = (thread / "stat").read_text().rpartition(") ")[2].split()
                yield fields[_STATE], fields[_NICE], fields[_POLICY]

    def _read(self, fd: int) -> None:
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self._poll.unregister(fd)
            self._open.discard(fd)
        elif fd == self._stdout:
            self.printed += data
            if len(self.printed) > self._limits.output_bytes:
                raise ProgramStopped("output_limit", f"more than {self._limits.output_bytes} bytes of output")
        else:
            self._received += data
            if len(self._received) > HEAD_BYTES + self._limits.output_bytes + CHUNK:
                raise ProgramStopped("output_limit", "more bytes on the channel than were requested")

    def _flush(self) -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self._unsent:
                del self._unsent[: self._channel.send(memoryview(self._unsent)[: 1 << 20].tobytes())]
        with contextlib.suppress(KeyError, FileNotFoundError):
            self._poll.modify(self._channel, select.POLLIN | (select.POLLOUT if self._unsent else 0))

    def _too_long(self, length: int) -> Exception:
        return ProgramStopped("output_limit", f"a value of {length} bytes")

    def _early_exit(self, is_starting: bool) -> Exception:
        code = self.end().code
        if is_starting:
            return SandboxError(f"a child exited with {code} before it started")
        return ProgramStopped("runtime_error", f"exited with {code} before it answered")


def _as_file(content: bytes | None) -> int:
    """A descriptor from which ``content`` can be read: a file in memory, because a pipe would need a writer."""
    if content is None:
        return os.open(os.devnull, os.O_RDONLY)
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd
