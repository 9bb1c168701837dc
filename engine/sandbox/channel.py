"""A confined process with its channel. Frames on the channel are a length in four bytes and as many bytes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from engine.sandbox.zygote_process import ProgramExit, SandboxError

_LENGTH = struct.Struct(">I")
HEAD_BYTES = _LENGTH.size
CHUNK = 1 << 16
_CLOCK_OF_A_PROCESS = 2


class ProcessHost(Protocol):
    """What starts and ends a confined process; a zygote does."""

    def start_program(self, fds: list[int], memory_bytes: int, command: Sequence[str] | None = None) -> int:
        """Start ``command`` with ``fds`` as its channel, standard input and output; its process id, 0 if unknown."""

    def end_program(self, *, ending: bool = False) -> ProgramExit:
        """End it and say how it ended."""

    def close(self) -> None:
        """End it and the host."""


class ConfinedProcess(ABC):
    """A process that a host started, its channel, and the descriptor from which its output is read without waiting.

    Args:
        host: starts it; a zygote must have no other child.
        stdin: descriptor of its standard input; it is closed here.
        memory_mb: limit of its memory, in MiB.
        command: path of an executable, and its arguments; None for a program of a zygote.
    """

    def __init__(self, host: ProcessHost, stdin: int, memory_mb: int, command: Sequence[str] | None = None) -> None:
        self._host = host
        self._received = bytearray()
        self._exit: ProgramExit | None = None
        self._cpu_seen = 0.0
        self._channel, child_end = socket.socketpair()
        self._stdout, child_stdout = os.pipe()
        try:
            os.set_blocking(self._stdout, False)
            fds = [child_end.fileno(), stdin, child_stdout]
            self._pid = host.start_program(fds, memory_mb << 20, command)
        except BaseException:
            self._channel.close()
            os.close(self._stdout)
            raise
        finally:
            child_end.close()
            os.close(child_stdout)
            os.close(stdin)

    def cpu_s(self) -> float:
        """Its processor time so far in seconds; 0 if its host does not know its process."""
        if self._exit is not None and self._pid > 0:
            return self._exit.cpu_s
        with contextlib.suppress(OSError):  # it has ended: the time that was read last
            if self._pid > 0:  # the clock of a process, as clock_getcpuclockid(3) makes it
                self._cpu_seen = time.clock_gettime((~self._pid << 3) | _CLOCK_OF_A_PROCESS)
        return self._cpu_seen

    def end(self, *, ending: bool = True) -> ProgramExit:
        """Terminate the process if it is still running.

        Args:
            ending: whether it has closed its descriptors, so that it is probably exiting by itself.

        Raises:
            SandboxError: the kernel killed it. A program cannot send SIGKILL, not even to itself.
        """
        if self._exit is None:
            self._exit = self._host.end_program(ending=ending)
            if self._exit.code == -signal.SIGKILL and not self._exit.killed:
                raise SandboxError("the machine killed a process of the sandbox (out of memory?)")
        return self._exit

    def _take_frame(self, most: int) -> bytes | None:
        """Remove the first frame from the bytes that were received; None if it is not complete.

        Raises:
            Exception: that of :meth:`_too_long`, if it has more than ``most`` bytes.
        """
        if len(self._received) < HEAD_BYTES:
            return None
        (length,) = _LENGTH.unpack_from(self._received)
        if length > most:
            raise self._too_long(length)
        end = HEAD_BYTES + length
        if len(self._received) < end:
            return None
        frame = bytes(self._received[HEAD_BYTES:end])
        del self._received[:end]
        return frame

    @abstractmethod
    def _too_long(self, length: int) -> Exception:
        """The error about a frame of too many bytes."""


def packed(data: bytes) -> bytes:
    """The frame of some bytes."""
    return _LENGTH.pack(len(data)) + data
