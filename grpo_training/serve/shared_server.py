"""One local server for all processes that use the same model.

Each user of the server holds a shared lock on a file. A separate process, the keeper, runs the server and stops it
when nobody has held the lock for a few seconds. Whoever starts a keeper holds the lock of the start and hands it on to
the keeper, so that a start whose user has died is waited for and joined, not repeated.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from engine.errors import ConfigurationError, FatalEndpointError, IncompleteRunError
from engine.reading.model_text import without_control_characters
from engine.storage.append_log import replace_file
from engine.storage.user_folder import user_folder
from grpo_training.cli.entry import run_command
from grpo_training.serve.engines import Engine, choose_engine
from grpo_training.serve.local_server import again_or, is_up, local_server, when_up, why_ended

KEEPER = (sys.executable, "-m", "grpo_training.serve.shared_server")
"""Command of the keeper; the model's folder, the temperature and the descriptor of the lock are appended."""

_POLL_S = 0.5
_IDLE_TIMEOUT_S = 3.0


@contextlib.contextmanager
def shared_server(
    model: Path, temperature: float = 1.0, *, engine: Engine | None = None, keeper: Sequence[str] = KEEPER
) -> Iterator[dict[str, Any]]:
    """The API configuration's entry of a server of ``model`` for the length of the block: a running one, or a new one.

    Args:
        model: a folder in the Hugging Face format.
        temperature: sampling temperature of the run. An engine that samples all requests alike needs one server
            per temperature; other engines share one server.
        engine: None chooses one (:func:`choose_engine`).
        keeper: command of the keeper.

    Raises:
        MissingInputError, ConfigurationError: as :func:`local_server`.
        FatalEndpointError, IncompleteRunError: as the block, with the last line of the log if the server has exited.
    """
    engine = engine or choose_engine()  # reports a missing package here and not only in the keeper's log
    files = _ServerFiles(model.resolve(), temperature if engine.has_one_sampling else 1.0)
    with files.users.open("a") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        with files.starting.open("a") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            entry = files.running() or files.start(keeper, starting.fileno())
        try:
            yield entry
        except (FatalEndpointError, IncompleteRunError) as error:
            if is_up(entry["base_url"]):
                raise
            # The error says that the server cannot be reached; only its log says why.
            why = "\n".join(filter(None, (error.why, f"The local server of {model} has exited.", why_ended(files.log))))
            raise type(error)(error.what, why=why, fix=again_or(engine.otherwise)) from error


def keep(model: Path, temperature: float, lock: int, engine: Engine | None = None) -> int:
    """The keeper: serve until the server has been unused for a few seconds; the exit code.

    Args:
        model, temperature: as :func:`shared_server`.
        lock: descriptor of the lock of the start; closed when the server is ready.
        engine: None chooses one.
    """
    files = _ServerFiles(model, temperature)
    with local_server(model, engine=engine, temperature=temperature, log=files.log, quiet=True) as server:
        replace_file(files.state, json.dumps(server.endpoint()).encode())
        os.close(lock)
        idle_since: float | None = None
        while not server.ended():
            time.sleep(_POLL_S)
            if files.is_used():
                idle_since = None
            elif idle_since is None:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > _IDLE_TIMEOUT_S:
                with files.starting.open("a") as starting:  # a new user takes its lock before this one
                    fcntl.flock(starting, fcntl.LOCK_EX)
                    if not files.is_used():
                        files.state.unlink(missing_ok=True)
                        return 0
    return 2


class _ServerFiles:
    """The files by which processes find the server of a model."""

    def __init__(self, model: Path, temperature: float) -> None:
        self.model, self.temperature = model, temperature
        folder = user_folder()
        name = hashlib.sha256(f"{model} at {temperature}".encode()).hexdigest()[:16]
        self.state, self.log = folder / f"{name}.json", folder / f"{name}.log"
        self.users, self.starting = folder / f"{name}.users", folder / f"{name}.starting"

    def running(self) -> dict[str, Any] | None:
        """The entry in the state file, if its server passes its health check."""
        try:
            entry: dict[str, Any] = json.loads(self.state.read_text())
            return entry if is_up(entry["base_url"]) else None
        except (FileNotFoundError, ValueError, KeyError):
            return None

    def start(self, keeper: Sequence[str], lock: int) -> dict[str, Any]:
        """Start the keeper in its own session, hand the lock of the start on to it, and wait for its server."""
        self.state.unlink(missing_ok=True)
        self.log.unlink(missing_ok=True)
        with self.log.open("ab") as output:
            process = subprocess.Popen(
                [*keeper, str(self.model), str(self.temperature), str(lock)],
                pass_fds=[lock],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        if (entry := when_up(self.running, process)) is not None:
            return entry
        why = without_control_characters(self.log.read_text(errors="replace"))[-2000:].strip()
        raise ConfigurationError(f"The local server of {self.model} did not start", why=why)

    def is_used(self) -> bool:
        """Whether any process holds the users' lock."""
        with self.users.open("a") as users:
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False


if __name__ == "__main__":
    run_command(lambda: keep(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])), resumes=False)
