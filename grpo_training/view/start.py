"""``python -m grpo_training.view``: serve the pages, or export them."""

from __future__ import annotations

import contextlib
import socket
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

import uvicorn

from engine.errors import InputError, MissingInputError
from engine.tasks.registry import load_task
from grpo_training.runs.folder import found_run
from grpo_training.runs.scored_file_groups import write_groups
from grpo_training.view.arguments import DEFAULT_FOLDERS
from grpo_training.view.data.runs import Store
from grpo_training.view.web.export import export
from grpo_training.view.web.server import application

HOST = "127.0.0.1"
"""Only this machine reaches the pages; another one forwards a port of its own over SSH."""


def view(arguments: Namespace) -> int:
    """Run the command.

    Raises:
        MissingInputError: a folder does not exist, or there is nothing to export.
        InputError: the port is taken, the export has no new name, or a task cannot be loaded.
    """
    for task in arguments.task:
        load_task(task)  # the pages know it by its name from then on
    if arguments.run is not None and arguments.folders:
        raise InputError("--run and folders exclude each other")
    given = arguments.folders if arguments.run is None else [found_run(arguments.run).folder]
    with contextlib.ExitStack() as stack:
        missing = [folder for folder in given if not folder.exists()]
        if missing:
            raise MissingInputError(
                f"Folder not found: {missing[0]}",
                fix="Pass the folder of a run: the --cache-dir of a generator, or the --output-dir of a training.",
            )
        store = Store([_as_folder(path, stack) for path in given or DEFAULT_FOLDERS])
        if arguments.export is None:
            _serve(store, arguments.port)
        else:
            pages = export(store, arguments.export, arguments.export_groups)
            print(f"{pages} pages in {arguments.export}. Open it in a browser.")
    return 0


def _as_folder(path: Path, stack: contextlib.ExitStack) -> Path:
    """A folder as it is; a file of ``score_rollouts`` as the folder of a run, for the length of the block."""
    if not path.is_file():
        return path
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / path.stem
    write_groups(path, folder)
    return folder


def _serve(store: Store, port: int) -> None:
    listening = listen(port)
    print(f"http://{HOST}:{listening.getsockname()[1]}/")
    print(f"{len(store.runs)} runs, {len(store.libraries)} libraries. Ctrl-C ends the server.", file=sys.stderr)
    sys.stdout.flush()
    config = uvicorn.Config(application(store), log_level="warning", server_header=False, timeout_graceful_shutdown=2)
    with contextlib.suppress(KeyboardInterrupt):  # the way to end it
        uvicorn.Server(config).run(sockets=[listening])


def listen(port: int) -> socket.socket:
    """A socket that accepts connections of this machine.

    Raises:
        InputError: the port cannot be used.
    """
    try:
        return socket.create_server((HOST, port))
    except (OSError, OverflowError) as error:
        raise InputError(
            f"Cannot listen on {HOST}, port {port}",
            why=str(error),
            fix="Pass another --port; --port 0 takes any free one.",
        ) from None
