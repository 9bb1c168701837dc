"""The policies that an evaluation compares: baselines, models in folders, endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.api_manager import DEFAULT_ROLE, ApiManager
from engine.errors import InputError
from engine.reading.masking import shown_url
from engine.tasks.traffic.simulation.closed_loop import LOCAL_POLICIES
from grpo_training.evaluate.models import EvaluatedModel, RoleModel, local_model, model_of_role
from grpo_training.traffic.settings import EvaluateSettings

BASELINE = "max-pressure"
"""All policies are compared with it."""

_ROLE = "role:"


@dataclass(frozen=True)
class EvaluatedPolicy:
    """A policy.

    Args:
        name: as ``--policy`` names it.
        model: None for a baseline.
    """

    name: str
    model: EvaluatedModel | None = None


def policies_of(settings: EvaluateSettings) -> list[EvaluatedPolicy]:
    """The policies that ``--policy`` names, in its order, each once.

    Raises:
        InputError: none is named, or one is neither known nor a folder.
        MissingInputError, ConfigurationError: a model or an endpoint is missing or incomplete.
    """
    named = [name for part in settings.policy.split(",") if (name := part.strip())]
    if not named:
        raise InputError("No policy is named", fix=f"Choose some of: {', '.join(LOCAL_POLICIES)}, or name a model.")
    return [_policy(name, settings) for name in dict.fromkeys(named)]


def _policy(name: str, settings: EvaluateSettings) -> EvaluatedPolicy:
    if name in LOCAL_POLICIES:
        return EvaluatedPolicy(name)
    if name.startswith(_ROLE):
        return EvaluatedPolicy(name, model_of_role(ApiManager.load(settings.api_config), name.removeprefix(_ROLE)))
    if name.startswith(("http://", "https://")):
        return EvaluatedPolicy(shown_url(name), _endpoint(name, settings))
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise InputError(
            f"Unknown policy {name!r}",
            why="It is no baseline and no folder.",
            fix=f"Choose some of: {', '.join(LOCAL_POLICIES)}; or the folder of a model or adapter, "
            f"a URL with --model, or {_ROLE}NAME.",
        )
    return EvaluatedPolicy(name, local_model(folder))


def _endpoint(base_url: str, settings: EvaluateSettings) -> RoleModel:
    if settings.model is None:
        raise InputError(
            f"Which model of {shown_url(base_url)} is meant?",
            fix="Pass its name: --model NAME (a server lists them at /models).",
        )
    manager = ApiManager.for_one_endpoint(base_url, settings.model, settings.api_key_env)
    manager.endpoint(DEFAULT_ROLE)  # a missing key or a wrong URL is reported now
    return RoleModel(manager, DEFAULT_ROLE)
