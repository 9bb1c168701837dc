"""Serves a local model until it is interrupted."""

from __future__ import annotations

import time
from typing import NoReturn

from grpo_training.serve.engines import Engine, choose_engine
from grpo_training.serve.local_server import local_server
from grpo_training.serve.settings import ServeSettings

_POLL_S = 1.0


def serve(settings: ServeSettings, engine: Engine | None = None) -> NoReturn:
    """Serve until Ctrl-C or SIGTERM.

    Args:
        settings: the command's settings.
        engine: None is the one that the settings name.

    Raises:
        ConfigurationError: the server did not start, or has exited.
    """
    engine = engine or choose_engine(settings.engine)
    print(f"Starting a server for {settings.model} with {engine.name} ...", flush=True)
    with local_server(
        settings.model,
        engine=engine,
        adapter=settings.adapter,
        temperature=settings.temperature,
        port=settings.port,
        log=settings.log,
    ) as server:
        print(f"{server.base_url} serves the model {server.model} (Ctrl-C to stop)", flush=True)
        while True:
            server.check()
            time.sleep(_POLL_S)
