"""One local server for all processes that want the same model; the last one out turns it off.

Users hold a shared lock on a file. The server's keeper looks whether anybody still does.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import ConfigurationError
from engine.storage.append_log import replace_file
from grpo_training.serving.local_server import START_S, LocalServer, choose_engine, is_up, local_server, user_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOK_S = 0.5
_IDLE_S = 3.0


@contextlib.contextmanager
def shared_server(model: Path, temperature: float = 1.0) -> Iterator[LocalServer]:
    """A server of ``model`` for the length of the block: one that another process has started, or a new one.

    Args:
        model: a folder in the Hugging Face format.
        temperature: of the run. An engine that draws all replies alike is started with it, a server for each, as
            records name what it was; of the others one serves all.

    Raises:
        MissingInputError, ConfigurationError: as :func:`local_server`.
    """
    engine = choose_engine()  # says what is missing here, not in a process nobody sees
    place = _Place(model.resolve(), temperature if engine.has_one_sampling else 1.0)
    with place.users.open("a") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        with place.starting.open("a") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            server = place.running() or place.start()
        yield server


class _Place:
    """The files by which processes find the server of one model."""

    def __init__(self, model: Path, temperature: float) -> None:
        self.model, self.temperature = model, temperature
        folder = user_folder()
        name = hashlib.sha256(f"{model} at {temperature}".encode()).hexdigest()[:16]
        self.state, self.log = folder / f"{name}.json", folder / f"{name}.log"
        self.users, self.starting = folder / f"{name}.users", folder / f"{name}.starting"

    def running(self) -> LocalServer | None:
        """The server that the state file names, where it answers."""
        try:
            state = json.loads(self.state.read_text())
            server = LocalServer(
                tuple(state["base_url"]),
                state["model"],
                tuple(state["never_send"]),
                lambda: False,
                state.get("max_concurrency"),
            )
        except (FileNotFoundError, ValueError, KeyError):
            return None
        return server if all(map(is_up, server.base_urls)) else None

    def start(self) -> LocalServer:
        """Start a keeper in a session of its own and wait until its server is up."""
        self.state.unlink(missing_ok=True)
        self.log.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            keeper = subprocess.Popen(
                [sys.executable, "-m", "grpo_training.serving.shared_server", str(self.model), str(self.temperature)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if (server := self.running()) is not None:
                return server
            if keeper.poll() is not None:
                break
            time.sleep(0.1)
        tail = self.log.read_text(errors="replace")[-2000:].strip()
        raise ConfigurationError(f"The local server of {self.model} did not come up", why=tail)

    def nobody_uses_it(self) -> bool:
        """Whether no process holds the users' lock."""
        with self.users.open("a") as users:
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True


def keep(model: Path, temperature: float) -> int:
    """Serve until nobody has used the server for a while; the exit code."""
    place = _Place(model, temperature)
    with local_server(model, temperature=temperature, log=place.log) as server:
        replace_file(place.state, json.dumps(server.endpoint()).encode())
        idle_since: float | None = None
        while not server.ended():
            time.sleep(_LOOK_S)
            if not place.nobody_uses_it():
                idle_since = None
            elif idle_since is None:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > _IDLE_S:
                with place.starting.open("a") as starting:  # who comes now holds a user's lock already
                    fcntl.flock(starting, fcntl.LOCK_EX)
                    if place.nobody_uses_it():
                        place.state.unlink(missing_ok=True)
                        return 0
    return 2


if __name__ == "__main__":
    from grpo_training.cli.entry import run_command

    run_command(lambda: keep(Path(sys.argv[1]), float(sys.argv[2])))
