"""Runs a command and ends it when the process that started it ends, also by ``kill -9``.

Run as a script by :func:`start_guarded`: the starting process holds the write end of a pipe that is this program's
standard input, and the system closes it when that process ends in any way. Loads only what it needs: one such process
runs beside each server.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_TERMINATE_S = 5.0


def start_guarded(
    command: Sequence[str], *, output: int | IO[Any], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own; it ends when this process ends.

    Args:
        command: the command line.
        output: where its output goes, as ``stdout`` of ``Popen``.
        environment: its environment variables.

    Returns:
        the process. Signals for the command go to its process group, whose id is the process's. Its exit status is
        the command's; 128 + number after a signal.
    """
    return subprocess.Popen(
        [sys.executable, "-I", str(Path(__file__)), *command],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=dict(environment),
    )


def _main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # the command gets them too, and decides
        signal.signal(number, lambda *_: None)
    try:
        child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    except OSError as error:
        sys.exit(f"{sys.argv[1]}: {error.strerror}")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    status = child.wait()
    sys.stdout.flush()
    os._exit(status if status >= 0 else 128 - status)


def _end_with_parent() -> None:
    """Wait for the end of the standard input, then end the process group, which includes this process."""
    while os.read(0, 4096):
        continue
    with contextlib.suppress(ProcessLookupError):
        os.killpg(0, signal.SIGTERM)
    time.sleep(_TERMINATE_S)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    _main()
