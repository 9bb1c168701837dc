"""``python -m engine.tasks.traffic.simulation.server FD``: forks a process for each simulation that is asked for.

It has imported libsumo, which takes longer than a short simulation, and never runs one itself. Its argument is the file
descriptor of a socket, over which it receives one end of a connection for each simulation. It ends when that socket is
closed, that is with the process that started it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from engine.tasks.traffic.simulation import runs
from engine.tasks.traffic.simulation.process import SimulationError


def main() -> None:
    """Fork until the socket is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent kills simulations itself
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no child stays as a zombie
    control = socket.socket(fileno=int(sys.argv[1]))
    while ends := socket.recv_fds(control, 1, 1)[1]:
        if os.fork() == 0:  # pragma: no cover - runs in the fork, which must not return into the loop
            try:
                _serve(Connection(ends[0]))
            except (EOFError, ConnectionError):  # the parent has ended
                pass
            except BaseException:  # noqa: BLE001 - printed; the parent sees that no answer came
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(ends[0])


def _serve(connection: Connection) -> None:
    """Do a run, and send its messages and its value to the parent. What is printed goes to a file of its folder."""
    connection.send(os.getpid())
    folder, run, options, arguments = connection.recv()
    with (Path(folder) / "printed").open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    tempfile.tempdir = folder  # removed by the parent, also if this process is killed

    def tell(message: Any) -> Any:
        connection.send(("message", message))
        return connection.recv()

    try:
        value = getattr(runs, run)(tell, options, *arguments)
    except SimulationError as error:
        connection.send(("error", str(error)))
    else:
        connection.send(("value", value))
    connection.recv()  # lives until the parent kills it, so that its process id is that of no other


if __name__ == "__main__":
    main()
