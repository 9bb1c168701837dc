"""The models that an evaluation compares, local or at a role's endpoint, and how local ones are served."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.api_manager import DEFAULT_ROLE, ROLES, ApiManager
from engine.errors import InputError, MissingInputError
from engine.llm.budget import Budget
from engine.llm.retry import RetryPolicy
from engine.records import Sampling
from grpo_training.cli.settings import POCKET_MODEL
from grpo_training.evaluate.settings import EvaluateSettings
from grpo_training.serve.engines import choose_engine
from grpo_training.serve.local_server import local_server
from grpo_training.serve.model_folder import base_of_adapter, content_digest, find_model

MODEL, BASE = "model", "base"

_LOCAL_ROLE = "evaluated"
_LOCAL_RETRY_S = 120.0
"""A local server that has not answered for this long has failed."""


@dataclass(frozen=True)
class LocalModel:
    """A model in a folder on this machine, with an optional LoRA adapter."""

    folder: Path
    adapter: Path | None = None

    def __str__(self) -> str:
        return str(self.folder) if self.adapter is None else f"{self.folder} + {self.adapter}"

    @property
    def id(self) -> str:
        """A name that changes with the weights."""
        return f"{self} ({content_digest([self.folder, *([self.adapter] if self.adapter else [])])})"


@dataclass(frozen=True)
class RoleModel:
    """The model of a role's endpoint."""

    manager: ApiManager
    role: str

    @property
    def id(self) -> str:
        """The model's name at the endpoint."""
        return self.manager.endpoint(self.role).model


EvaluatedModel = LocalModel | RoleModel


def models_of(settings: EvaluateSettings) -> dict[str, EvaluatedModel]:
    """The models to evaluate, by name.

    Raises:
        InputError: the settings contradict each other.
        MissingInputError: a folder or the endpoint configuration is missing.
        ConfigurationError: an adapter belongs to another model, or an endpoint is incomplete.
    """
    models: dict[str, EvaluatedModel] = {}
    by_address = settings.base_url is not None or settings.role is not None
    if by_address and (settings.model_path or settings.adapter):
        raise InputError(
            "--role and --base-url evaluate an endpoint and cannot be combined with --model-path or --adapter"
        )
    if by_address:
        models[MODEL] = model_of_role(settings.load_endpoints(), settings.role or DEFAULT_ROLE)
    else:
        models[MODEL] = local_model(settings.model_path or POCKET_MODEL, settings.adapter)
    if settings.base_model is not None:
        models[BASE] = local_model(settings.base_model, None)
    return models


def local_model(folder: Path, adapter: Path | None = None) -> LocalModel:
    """The model of a folder, which may also be that of an adapter, or of a name of the hub.

    Raises:
        MissingInputError, ConfigurationError: as :func:`models_of`.
    """
    is_adapter = (folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file()
    if is_adapter and adapter is None:  # a checkpoint of LoRA training
        base = base_of_adapter(folder)
        if base is None:
            raise MissingInputError(
                f"{folder} is an adapter, and its base model is not on this machine",
                fix=f"Give both: --model-path MODEL --adapter {folder}",
            )
        folder, adapter = base, folder
    return LocalModel(find_model(folder, adapter), adapter)


def model_of_role(manager: ApiManager, role: str) -> EvaluatedModel:
    """The model of a role's endpoint; a local one if the role names a folder.

    Raises:
        InputError: there is no such role.
        MissingInputError, ConfigurationError: as :func:`models_of`.
    """
    if role not in ROLES and role not in manager.roles():  # `default` would stand for it
        known = dict.fromkeys((*manager.roles(), *ROLES))
        raise InputError(f"--role: there is no role {role!r}", fix=f"Choose one of {', '.join(known)}.")
    local = manager.local_model(role)
    if local is not None:
        return local_model(Path(local), None)
    manager.endpoint(role)
    return RoleModel(manager, role)


@dataclass(frozen=True)
class ServedModel:
    """An endpoint that answers requests; ``check`` raises if its server has exited. A local model has no budget."""

    manager: ApiManager
    role: str
    retry: RetryPolicy
    budget: Budget
    check: Callable[[], None]


@contextlib.contextmanager
def served(
    model: EvaluatedModel, sampling: Sampling, budget: Budget, *, engine: str, output: Path
) -> Iterator[ServedModel]:
    """The model's endpoint for the length of the block; a local model is served on this machine.

    Args:
        model: is served.
        sampling: of its requests, for an engine that samples all of them alike.
        budget: that of the command, for all of its models.
        engine: serves a folder.
        output: the file of the figures; the server's log is next to it.
    """
    if isinstance(model, RoleModel):
        yield ServedModel(model.manager, model.role, RetryPolicy(), budget, lambda: None)
        return
    log = output.with_suffix(".server.log")
    temperature = 1.0 if sampling.temperature is None else sampling.temperature
    print(f"Starting a server for {model} (temperature {temperature:g}) ...", flush=True)
    with local_server(
        model.folder,
        engine=choose_engine(engine),
        adapter=model.adapter,
        temperature=temperature,
        top_p=sampling.top_p,
        log=log,
    ) as server:
        manager = ApiManager(output, {_LOCAL_ROLE: server.endpoint()})
        yield ServedModel(manager, _LOCAL_ROLE, RetryPolicy(total_s=_LOCAL_RETRY_S), Budget(), server.check)
