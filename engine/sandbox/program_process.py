"""One program's process, seen from this side: frames to and from it, what it prints, and its clock."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import socket
import struct
import time
from types import TracebackType
from typing import Any, Literal

from engine.sandbox.host import Ending, SandboxError, Zygote
from engine.sandbox.test_cases import Limits, Status

_LENGTH = struct.Struct(">I")
_CHUNK = 1 << 16
_START_S = 20.0


class ProgramStopped(Exception):  # noqa: N818 - it is how a program ended, no error of ours
    """The program gave no further answer. ``starved``: it was stopped on time, but had had little processor time."""

    def __init__(self, status: Status, text: str, *, starved: bool = False) -> None:
        super().__init__(text)
        self.status, self.text, self.starved = status, text, starved


class ProgramProcess:
    """A child of a zygote that runs one program; a context manager, at whose end nothing of the child is left.

    Args:
        zygote: whose child it becomes; it must have no other.
        kind: ``calls`` (answers requests), ``main`` (reads and prints) or ``asserts`` (a test's own code).
        program: the source that is run.
        setup: source that is run before it.
        limits: memory, output and processor time.
        stdin: what it reads; None is an empty input.
        entry_point: a name that the program must define.

    Raises:
        SandboxError: from any method, where the fault is the sandbox's.
    """

    def __init__(
        self,
        zygote: Zygote,
        kind: Literal["calls", "main", "asserts"],
        program: str,
        *,
        setup: str,
        limits: Limits,
        stdin: bytes | None = None,
        entry_point: str | None = None,
    ) -> None:
        self._zygote, self._limits = zygote, limits
        self._cpu_limit = math.ceil(limits.total_s) + 1
        self._ending: Ending | None = None
        self._received, self._unsent = bytearray(), bytearray()
        self.printed = bytearray()
        self._channel, theirs = socket.socketpair()
        self._stdout, their_stdout = os.pipe()
        their_stdin = _as_file(stdin)
        try:
            self._channel.setblocking(False)
            os.set_blocking(self._stdout, False)
            self._poll = select.poll()
            self._poll.register(self._channel, select.POLLIN)
            self._poll.register(self._stdout, select.POLLIN)
            fds = [theirs.fileno(), their_stdin, their_stdout]
            zygote.start_program(fds, limits.memory_mb << 20, self._cpu_limit)
        except BaseException:
            self._channel.close()
            os.close(self._stdout)
            raise
        finally:
            theirs.close()
            os.close(their_stdout)
            os.close(their_stdin)
        self._started = time.monotonic()
        job = {"kind": kind, "program": program, "setup": setup, "entry_point": entry_point}
        self.send({**job, "max_items": limits.output_bytes, "remote": [entry_point] if entry_point else []})
        self._open = {self._channel.fileno(), self._stdout}

    def __enter__(self) -> ProgramProcess:
        """Wait until the child is locked in; its clock starts with the program."""
        try:
            if json.loads(self.receive(_START_S, own=True)) != {"started": True}:
                raise SandboxError("a child did not start")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self._started = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._zygote.dead:
                self.end(ending=False)
        finally:
            self._channel.close()
            os.close(self._stdout)

    @property
    def unread(self) -> bool:
        """Whether it has written more than it was asked for."""
        return bool(self._received)

    def send(self, message: dict[str, Any]) -> None:
        """Put a frame on its way; it goes out while answers are awaited."""
        self.send_raw(json.dumps(message).encode())

    def send_raw(self, data: bytes) -> None:
        """Put a frame with these bytes on its way."""
        self._unsent += _LENGTH.pack(len(data)) + data
        self._flush()

    def receive(self, time_s: float, *, own: bool = False) -> bytes:
        """The next frame.

        Args:
            time_s: wall-clock seconds it may take.
            own: no program runs yet, so whatever goes wrong is the sandbox's fault.

        Raises:
            ProgramStopped: on time, for too much output, for a frame that is too long, or because it has ended.
        """
        until = time.monotonic() + time_s
        while True:
            frame = self._take_frame()
            if frame is not None:
                return frame
            if self._channel.fileno() not in self._open:
                raise self._why_it_ended(own)
            self._pump(until, own)

    def wait_for_end(self, time_s: float) -> None:
        """Read all that it prints until it has closed everything; ``printed`` has it then."""
        until = time.monotonic() + time_s
        while self._open:
            self._pump(until, own=False)

    def _pump(self, until: float, own: bool) -> None:
        """Move bytes once, in every direction that is ready."""
        left = until - time.monotonic()
        events = self._poll.poll(left * 1000) if left > 0 else []
        if not events:
            if own:
                raise SandboxError("a child did not start in time")
            wall, cpu = time.monotonic() - self._started, self.end(ending=False).cpu_s
            raise ProgramStopped(Status.TIMEOUT, "stopped on time", starved=cpu < 0.8 * wall)
        for fd, event in events:
            if event & select.POLLOUT:
                self._flush()
            if event & (select.POLLIN | select.POLLHUP | select.POLLERR):
                self._read(fd)

    def _read(self, fd: int) -> None:
        try:
            data = os.read(fd, _CHUNK)
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
                raise ProgramStopped(Status.OUTPUT_LIMIT, f"more than {self._limits.output_bytes} bytes of output")
        else:
            self._received += data
            if len(self._received) > _LENGTH.size + self._limits.output_bytes + _CHUNK:  # nobody has asked for so much
                raise ProgramStopped(Status.OUTPUT_LIMIT, "more written to the channel than was asked for")

    def _flush(self) -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self._unsent:
                del self._unsent[: self._channel.send(memoryview(self._unsent)[: 1 << 20].tobytes())]
        with contextlib.suppress(KeyError, FileNotFoundError):
            self._poll.modify(self._channel, select.POLLIN | (select.POLLOUT if self._unsent else 0))

    def _take_frame(self) -> bytes | None:
        if len(self._received) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._received)
        if length > self._limits.output_bytes:
            raise ProgramStopped(Status.OUTPUT_LIMIT, f"a value of {length} bytes")
        if len(self._received) < _LENGTH.size + length:
            return None
        frame = bytes(self._received[_LENGTH.size : _LENGTH.size + length])
        del self._received[: _LENGTH.size + length]
        return frame

    def _why_it_ended(self, own: bool) -> Exception:
        ending = self.end()
        if own:
            return SandboxError(f"a child ended with {ending.code} before it started")
        return ProgramStopped(Status.RUNTIME_ERROR, f"ended with {ending.code} before it answered")

    def end(self, *, ending: bool = True) -> Ending:
        """End it, wherever it is.

        Args:
            ending: it has closed its ends, so it may be on its way out by itself.

        Raises:
            ProgramStopped: it ran out of processor time.
            SandboxError: the machine killed it. A program may not send that signal, not even to itself.
        """
        if self._ending is None:
            self._ending = self._zygote.end_program(ending=ending)
            if self._ending.code == -signal.SIGKILL and not self._ending.killed:
                if self._ending.cpu_s < self._cpu_limit - 1:
                    raise SandboxError("the machine killed a program's process (out of memory?)")
                raise ProgramStopped(Status.TIMEOUT, "out of processor time")
        return self._ending


def _as_file(content: bytes | None) -> int:
    """A descriptor to read ``content`` from: a file in memory, so nobody has to feed a pipe."""
    if content is None:
        return os.open(os.devnull, os.O_RDONLY)
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd
