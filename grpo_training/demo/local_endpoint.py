"""The endpoint of the demos: one local server for all roles."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, closing
from pathlib import Path

from engine.api_manager import ANALYST_ROLE, LEARNERS, ApiManager
from engine.llm.client import LLMClient
from engine.llm.journal import ResponseJournal
from engine.llm.retry import RetryPolicy
from grpo_training.serve.local_server import LocalServer

ROLE = "generator_1"
"""The role of single-model evaluations."""

_ROLES = (*LEARNERS, ANALYST_ROLE)
_RETRY_S = 120.0
"""A local server that has not answered for this long has failed."""


ServerStarter = Callable[..., AbstractContextManager[LocalServer]]
"""Serves a model for the length of a block, as :func:`grpo_training.serve.local_server.local_server` does."""


def write_api_config(output: Path, server: LocalServer) -> Path:
    """Write ``api_config.json`` with all roles on one server; its path."""
    config = output / "api_config.json"
    config.write_text(json.dumps(dict.fromkeys(_ROLES, server.endpoint()), indent=2) + "\n", encoding="utf-8")
    return config


@asynccontextmanager
async def open_client(output: Path, server: LocalServer) -> AsyncIterator[LLMClient]:
    """A client of the server, with the journal of the demo's evaluations."""
    manager = ApiManager(output / "api_config.json", dict.fromkeys(_ROLES, server.endpoint()))
    with closing(ResponseJournal(output / "evaluation.sqlite")) as journal:
        async with LLMClient(manager, journal=journal, retry=RetryPolicy(total_s=_RETRY_S)) as client:
            yield client
