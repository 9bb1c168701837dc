"""The policies that an evaluation compares: baselines, models in folders, endpoints."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from engine.api_manager import DEFAULT_ROLE, ApiManager
from engine.errors import InputError
from engine.reading.masking import shown_url
from engine.tasks.traffic.simulation.closed_loop import LOCAL_POLICIES
from grpo_training.evaluate.models import EvaluatedModel, LocalModel, RoleModel, local_model, model_of_role
from grpo_training.traffic.settings import EvaluateSettings

BASELINE = "max-pressure"
"""All policies are compared with it."""

FIXED = "fixed"
"""The network's own programme. It takes no decisions, so it has no figures on stored ones."""

ORACLE = "oracle"
"""On stored decisions: the better of the two branches."""

_ROLE = "role:"
_MOST_PARTS = 8
"""Parts of a folder's path in the name of a policy, where fewer are shared by two."""


@dataclass(frozen=True)
class EvaluatedPolicy:
    """A policy.

    Args:
        name: as it is shown; no two policies of an evaluation have the same.
        id: changes with the weights of a model, or with its endpoint.
        model: None for a baseline.
    """

    name: str
    id: str
    model: EvaluatedModel | None = None


def policies_of(settings: EvaluateSettings) -> list[EvaluatedPolicy]:
    """The policies that ``--policy`` names, in its order.

    Raises:
        InputError: none is named, one is named twice, or one is neither known nor a folder.
        MissingInputError, ConfigurationError: a model or an endpoint is missing or incomplete.
    """
    named = [name for part in settings.policy.split(",") if (name := part.strip())]
    if not named:
        raise InputError("No policy is named", fix=f"Choose some of: {', '.join(LOCAL_POLICIES)}, or name a model.")
    named = list(dict.fromkeys(named))
    policies = [_policy(name, settings) for name in named]
    for parts in range(2, _MOST_PARTS + 2):
        twice = [name for name, count in Counter(policy.name for policy in policies).items() if count > 1]
        if not twice:
            return policies
        policies = [
            replace(policy, name=_shown(Path(name).expanduser().resolve(), parts))
            if policy.name in twice and isinstance(policy.model, LocalModel)
            else policy
            for name, policy in zip(named, policies, strict=True)
        ]
    raise InputError(
        f"Two policies are called {twice[0]!r}", fix="Name each folder, and each model of an endpoint, once."
    )


def _policy(name: str, settings: EvaluateSettings) -> EvaluatedPolicy:
    if name in LOCAL_POLICIES:
        return EvaluatedPolicy(name, name)
    if name.startswith(_ROLE):
        return _of_model(name, model_of_role(ApiManager.load(settings.api_config), name.removeprefix(_ROLE)))
    if name.startswith(("http://", "https://")):
        return _of_model(settings.model or name, _endpoint(name, settings))
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise InputError(
            f"Unknown policy {name!r}",
            why="It is no baseline and no folder.",
            fix=f"Choose some of: {', '.join(LOCAL_POLICIES)}; or the folder of a model or adapter, "
            f"a URL with --model, or {_ROLE}NAME.",
        )
    return _of_model(_shown(folder.resolve()), local_model(folder))


def _shown(folder: Path, parts: int = 1) -> str:
    """The last parts of the path of a model's folder; for a result of ``train`` that of its run."""
    return "/".join((folder.parent if folder.name in ("lora", "merged") else folder).parts[-parts:])


def _of_model(name: str, model: EvaluatedModel) -> EvaluatedPolicy:
    if isinstance(model, LocalModel):
        return EvaluatedPolicy(name, model.id, model)
    address = model.manager.endpoint(model.role).shown_url
    return EvaluatedPolicy(name, f"{model.id} at {address}", model)


def _endpoint(base_url: str, settings: EvaluateSettings) -> RoleModel:
    if settings.model is None:
        raise InputError(
            f"Which model of {shown_url(base_url)} is meant?",
            fix="Pass its name: --model NAME (a server lists them at /models).",
        )
    manager = ApiManager.for_one_endpoint(base_url, settings.model, settings.api_key_env)
    manager.endpoint(DEFAULT_ROLE)  # a missing key or a wrong URL is reported now
    return RoleModel(manager, DEFAULT_ROLE)
