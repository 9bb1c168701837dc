"""Endpoints of a run: the client with its journal and budget, and servers for local models."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.api_manager import ANALYST_ROLE, JUDGE_ROLE, LEARNERS, ApiManager
from engine.errors import ConfigurationError, FatalEndpointError, IncompleteRunError, InputError
from engine.llm.budget import Budget
from engine.llm.client import LLMClient
from engine.llm.journal import ResponseJournal
from engine.llm.limits import ConcurrencyRule
from engine.llm.retry import RetryPolicy
from grpo_training.cli.settings import POCKET_MODEL, Settings
from grpo_training.runs.settings import OF_POCKET, BatchSettings, ClientSettings, RoleSettings

if TYPE_CHECKING:
    from grpo_training.serve.local_server import LocalServer

_HELPERS = (ANALYST_ROLE, JUDGE_ROLE)
"""Roles that are asked about the replies of another one."""


def check_endpoint(settings: RoleSettings, role: str) -> None:
    """Check the endpoints of a role, the analyst and the judge as far as this needs no server, before all else.

    Raises:
        MissingInputError: there is no API config, or no model in the folder of a local one.
        ConfigurationError: as :meth:`ApiManager.load` and :meth:`ApiManager.endpoint`.
    """
    if settings.endpoint == "local":
        _find_model(settings.local_model)
        return
    manager = settings.load_endpoints()
    for name in (role, *filter(manager.has, _HELPERS)):
        model = manager.local_model(name)
        if model is None:
            manager.endpoint(name)
        else:
            _find_model(Path(model))


def asks_in_batches(settings: Settings) -> bool:
    """Whether a command asks through a batch API."""
    return isinstance(settings, BatchSettings) and settings.batch


def price(settings: Settings, manager: ApiManager, role: str, read: int, written: int) -> float | None:
    """What tokens cost at the endpoint of a role, in USD; None if its prices are not known.

    Args:
        settings: whether it is asked in batches.
        manager: the endpoints; a model on this machine costs nothing.
        role: that is asked.
        read: prompt tokens.
        written: completion tokens.
    """
    if manager.local_model(role) is not None:
        return 0.0
    endpoint = manager.endpoint(role)
    return (endpoint.in_batches if asks_in_batches(settings) else endpoint).cost_usd(read, written)


def _find_model(model: Path) -> Path:
    from grpo_training.serve.model_folder import find_model  # most runs have no local model

    return find_model(model)


def check_budget(settings: RoleSettings, manager: ApiManager, role: str) -> None:
    """Raise ``InputError`` or ``ConfigurationError`` if the budget of the settings cannot be enforced."""
    if settings.budget_usd is None and settings.budget_tokens is None:
        return
    if settings.max_tokens is None:
        raise InputError(
            "A budget needs --max-tokens",
            why="Without a limit on the length of a reply, the cost of a request is not known in advance.",
            fix="Pass the maximum number of tokens of a reply, such as --max-tokens 4096.",
        )
    if settings.budget_usd is None:
        return
    for name in (role, *_HELPERS):
        if manager.has(name) and manager.endpoint(name).cost_usd(1, 1) is None:
            raise ConfigurationError(
                f"--budget-usd needs prices, and {name} has none",
                fix=f"Set price_in and price_out of {name} in {settings.api_config}, or use --budget-tokens.",
            )


@contextmanager
def open_endpoints(settings: RoleSettings) -> Iterator[ApiManager]:
    """Yield the endpoints of a run. Local models are served until the block ends.

    Raises:
        ScaffoldError: the API config is wrong, or a local model cannot be served, or its server has exited.
    """
    with ExitStack() as stack:
        servers: list[LocalServer] = []

        def serve(model: Path) -> dict[str, Any]:
            if model.resolve() == POCKET_MODEL and settings.prompts != OF_POCKET["prompts"]:
                print(f"The pocket model knows the prompts of --prompts pocket only, not of {settings.prompts}.")
            print(f"Starting server for {model} ...", flush=True)
            began = time.monotonic()
            from grpo_training.serve.local_server import local_server

            servers.append(stack.enter_context(local_server(model, temperature=settings.temperature)))
            print(f"The server is ready after {time.monotonic() - began:.1f} s.", flush=True)
            return servers[-1].endpoint()

        try:
            yield _endpoints(settings, serve)
        except (FatalEndpointError, IncompleteRunError):
            for server in servers:  # the error says that it cannot be reached; only its log says why
                server.check()
            raise


def named_endpoints(settings: RoleSettings) -> ApiManager:
    """The endpoints of a run with the names of their models. No server is started: local models cannot be asked.

    Raises:
        ScaffoldError: as :func:`open_endpoints`.
    """

    def named(model: Path) -> dict[str, Any]:
        from grpo_training.serve.engines import HOST
        from grpo_training.serve.local_server import served_name

        return {"api_key": "EMPTY", "base_url": f"http://{HOST}/v1", "model": served_name(model)}

    return _endpoints(settings, named)


def _endpoints(settings: RoleSettings, serve: Callable[[Path], dict[str, Any]]) -> ApiManager:
    """The endpoints of a run; ``serve`` makes the entry of a local model."""
    if settings.endpoint == "local":
        return ApiManager(settings.api_config, dict.fromkeys(LEARNERS, serve(settings.local_model)))
    manager = settings.load_endpoints()
    local = manager.local_models()
    if not local:
        return manager
    served = {model: serve(Path(model)) for model in dict.fromkeys(local.values())}
    return manager.with_entries({role: served[model] for role, model in local.items()})


def model_facts(manager: ApiManager, role: str) -> dict[str, Any]:
    """Which models a run of a role has used, for its manifest: their names, APIs and extra request fields."""
    facts: dict[str, Any] = {}
    for asked, name in ((role, "model"), *((helper, helper) for helper in _HELPERS)):
        if asked == role or manager.has(asked):
            endpoint = manager.endpoint(asked)
            if name != ANALYST_ROLE or endpoint.model != facts["model"]:  # else the model itself is the analyst
                facts[name] = endpoint.model
            if endpoint.api != "chat":
                facts[f"api of {asked}"] = endpoint.api
            if endpoint.extra_body:
                facts[f"extra_body of {asked}"] = endpoint.shown_extra_body
    return facts


@asynccontextmanager
async def open_client(
    settings: ClientSettings,
    manager: ApiManager,
    concurrency: ConcurrencyRule | None = None,
    *,
    budget: Budget | None = None,
) -> AsyncIterator[LLMClient]:
    """Yield a client with the journal of the cache folder.

    Args:
        settings: cache folder, retries and budget.
        manager: the endpoints.
        concurrency: how many requests may be in flight; None: the client's default rule.
        budget: that other clients of this start spend from too; None: that of the settings.
    """
    settings.cache_dir.mkdir(parents=True, exist_ok=True)
    connect_minutes = min(settings.connect_minutes, settings.retry_minutes)
    retry = RetryPolicy(settings.attempts, total_s=settings.retry_minutes * 60, connect_s=connect_minutes * 60)
    with closing(ResponseJournal(journal_path(settings))) as journal:
        async with LLMClient(
            manager,
            journal=journal,
            retry=retry,
            budget=budget or settings.open_budget(),
            concurrency=concurrency,
            batch=asks_in_batches(settings),
        ) as client:
            yield client


def journal_path(settings: ClientSettings) -> Path:
    """The journal of a cache folder."""
    return settings.cache_dir / "requests.sqlite"
