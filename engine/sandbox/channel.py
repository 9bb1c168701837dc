"""The channel of a confined process: how it is opened, and its frames, a length in four bytes and as many bytes."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Protocol

from engine.sandbox.zygote_process import ProgramExit

_LENGTH = struct.Struct(">I")
HEAD_BYTES = _LENGTH.size
_CLOCK_OF_A_PROCESS = 2


class ProcessHost(Protocol):
    """What starts and ends a confined process; a zygote does."""

    def start_program(self, fds: list[int], memory_bytes: int, command: Sequence[str] | None = None) -> int:
        """Start ``command`` with ``fds`` as its channel, standard input and output; its process id, 0 if unknown."""

    def end_program(self, *, ending: bool = False) -> ProgramExit:
        """End it and say how it ended."""

    def close(self) -> None:
        """End it and the host."""


def start_confined(
    host: ProcessHost, stdin: int, memory_mb: int, command: Sequence[str] | None = None
) -> tuple[int, socket.socket, int]:
    """Start a process.

    Args:
        host: starts it.
        stdin: descriptor of its standard input; it is closed here.
        memory_mb: limit of its memory, in MiB.
        command: path of an executable, and its arguments; None for a program of a zygote.

    Returns:
        its process id, this end of its channel, and a descriptor from which its output is read without waiting.
    """
    channel, child_end = socket.socketpair()
    stdout, child_stdout = os.pipe()
    try:
        os.set_blocking(stdout, False)
        pid = host.start_program([child_end.fileno(), stdin, child_stdout], memory_mb << 20, command)
    except BaseException:
        channel.close()
        os.close(stdout)
        raise
    finally:
        child_end.close()
        os.close(child_stdout)
        os.close(stdin)
    return pid, channel, stdout


def process_clock(pid: int) -> int:
    """The clock of the processor time of a process, as ``clock_getcpuclockid(3)`` makes it."""
    return (~pid << 3) | _CLOCK_OF_A_PROCESS


def packed(data: bytes) -> bytes:
    """The frame of some bytes."""
    return _LENGTH.pack(len(data)) + data


def take_frame(received: bytearray, most: int, too_long: Callable[[int], Exception]) -> bytes | None:
    """Remove the first frame from the bytes that were received.

    Args:
        received: bytes of an untrusted writer.
        most: length of the longest frame.
        too_long: makes the error about a longer one.

    Returns:
        its content; None if it is not complete.
    """
    if len(received) < HEAD_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(received)
    if length > most:
        raise too_long(length)
    end = HEAD_BYTES + length
    if len(received) < end:
        return None
    frame = bytes(received[HEAD_BYTES:end])
    del received[:end]
    return frame
