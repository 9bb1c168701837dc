"""An executable that runs in the sandbox for as long as it is wanted, and exchanges messages: Node.js."""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from collections.abc import Sequence
from typing import Any

from engine.sandbox.channel import CHUNK, ConfinedProcess, ProcessHost, packed
from engine.sandbox.zygote_process import ProgramExit

_MAX_FRAME_BYTES = 8 << 20
_MAX_PRINTED_BYTES = 1 << 16


class CommandStoppedError(Exception):
    """The process ended, or was ended because it broke the protocol or its time limit.

    Args:
        why: ``timeout``, ``exited`` or ``protocol``.
        text: a description, for messages.
        ending: how its process ended.
        printed: the end of what it printed.
        starved: whether it reached its time limit without having received that much processor time.
    """

    def __init__(self, why: str, text: str, ending: ProgramExit, printed: str, *, starved: bool = False) -> None:
        super().__init__(text)
        self.why, self.ending, self.printed, self.starved = why, ending, printed, starved


class CommandProcess(ConfinedProcess):
    """A confined process that reads and writes frames on its descriptor 3: a length in four bytes, and JSON.

    What it prints is kept apart from its messages. Not safe for several threads at once.

    Args:
        command: path of the executable, and its arguments.
        host: what starts it; ended with it. A :class:`~engine.sandbox.zygote_process.Zygote` to which it is visible.
        memory_mb: limit of its private memory, in MiB.
        busy_factor: wall-clock seconds that a second of processor time may take, see :meth:`receive`.

    Raises:
        SandboxError: it could not be started.
    """

    def __init__(self, command: Sequence[str], host: ProcessHost, *, memory_mb: int, busy_factor: float = 30.0) -> None:
        self._busy_factor, self._printed = busy_factor, bytearray()
        try:
            super().__init__(host, os.open(os.devnull, os.O_RDONLY), memory_mb, list(command))
        except BaseException:
            host.close()
            raise

    @property
    def printed(self) -> str:
        """The end of what it has printed."""
        self._read_printed()
        return self._printed.decode("utf-8", "replace")

    def alive(self) -> bool:
        """Whether it was not ended here."""
        return self._channel.fileno() >= 0

    def send(self, message: Any, timeout_s: float = 10.0) -> None:
        """Send a message.

        Raises:
            CommandStoppedError: the process has ended or does not read.
        """
        data = json.dumps(message).encode()
        self._channel.settimeout(timeout_s)
        try:
            self._channel.sendall(packed(data))
        except TimeoutError:
            raise self._stopped("timeout", "it reads no messages") from None
        except OSError:
            raise self._stopped("exited", "it has ended") from None

    def receive(self, time_s: float) -> dict[str, Any]:
        """The next message.

        Args:
            time_s: processor seconds after which the process is killed; or ``busy_factor`` times as many wall-clock
                seconds, if the machine is so busy.

        Raises:
            CommandStoppedError: it takes too long, has ended, or sent what is no message.
            SandboxError: the sandbox failed.
        """
        started, used_before = time.monotonic(), self.cpu_s()
        wait_s = time_s
        while True:
            frame = self._take_frame(_MAX_FRAME_BYTES)
            if frame is not None:
                try:
                    message = json.loads(frame)
                except (ValueError, RecursionError):
                    message = None
                if not isinstance(message, dict):
                    raise self._stopped("protocol", "it sent what is no message")
                return message
            watched = [fd for fd in (self._channel.fileno(), self._stdout) if fd >= 0]
            ready, _, _ = select.select(watched, [], [], max(wait_s, 0.01))
            if not ready:
                left_s = time_s - (self.cpu_s() - used_before)
                is_late = time.monotonic() - started >= self._busy_factor * time_s
                if left_s <= 0 or is_late:
                    raise self._stopped("timeout", f"it did not answer within {time_s:g} s", starved=left_s > 0)
                wait_s = left_s
            if self._stdout in ready:
                self._read_printed()
            if self._channel.fileno() in ready:
                data = b""
                with contextlib.suppress(ConnectionResetError):
                    data = self._channel.recv(CHUNK)
                if not data:
                    raise self._stopped("exited", "it has ended")
                self._received += data

    def close(self) -> None:
        """Kill the process. May be called twice."""
        self._host.close()
        self._channel.close()
        if self._stdout >= 0:
            os.close(self._stdout)
            self._stdout = -1

    def _too_long(self, length: int) -> Exception:
        return self._stopped("protocol", f"it sent a message of {length} bytes")

    def _read_printed(self) -> None:
        """Read what was printed so far. At the end of the pipe its descriptor is closed."""
        with contextlib.suppress(BlockingIOError):
            while self._stdout >= 0:
                data = os.read(self._stdout, CHUNK)
                self._printed = (self._printed + data)[-_MAX_PRINTED_BYTES:]
                if not data:
                    os.close(self._stdout)
                    self._stdout = -1

    def _stopped(self, why: str, text: str, *, starved: bool = False) -> CommandStoppedError:
        """End the process; the error to raise. A ``SandboxError`` is raised here if the machine ended it."""
        try:
            ending = self.end(ending=why == "exited")
            return CommandStoppedError(why, text, ending, self.printed, starved=starved)
        finally:
            self.close()
