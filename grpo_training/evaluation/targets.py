"""Who is evaluated: a model's folder, an adapter on top of it or a role's endpoint, and how it is served."""

from __future__ import annotations

import contextlib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.api_manager import ApiManager
from engine.errors import ConfigurationError, InputError, MissingInputError
from engine.llm.budget import Budget
from engine.llm.rate_limits import RateLedger
from engine.llm.retry import RetryPolicy
from engine.records import Sampling
from grpo_training.cli.settings import POCKET_MODEL
from grpo_training.learning.endpoints import ledger_path
from grpo_training.serving.local_server import choose_engine, local_server
from grpo_training.serving.model_folder import base_of_adapter, check_model, content_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grpo_training.evaluation.settings import EvaluateSettings

MODEL, BASE = "model", "base"
SAMPLED, GREEDY = "sampled", "greedy"

_LOCAL_ROLE = "evaluated"
_LOCAL_PATIENCE_S = 120.0
"""A server of this machine that does not answer for so long is gone."""


@dataclass(frozen=True)
class Folder:
    """A model of this machine, and the adapter on top of it."""

    model: Path
    adapter: Path | None = None

    @property
    def name(self) -> str:
        """As a person would say it."""
        return str(self.model) if self.adapter is None else f"{self.model} + {self.adapter}"


Arm = Folder | ApiManager
"""Whom to ask; of an ``ApiManager`` the role that the settings name."""


def arms_of(settings: EvaluateSettings) -> dict[str, Arm]:
    """Whom to ask by name; a model's folder is checked, a role's endpoint is complete."""
    arms: dict[str, Arm] = {}
    if settings.role is None:
        arms[MODEL] = _folder(settings.model_path or POCKET_MODEL, settings.adapter)
    elif settings.model_path or settings.adapter:
        raise InputError("--role asks an endpoint, so it excludes --model-path and --adapter")
    else:
        arms[MODEL] = _endpoint_or_folder(settings.api_config, settings.role)
    if settings.base_model is not None:
        arms[BASE] = _folder(settings.base_model, None)
    if any(isinstance(arm, Folder) for arm in arms.values()):
        choose_engine(settings.engine)  # says now what is not installed
    return arms


def _folder(model: Path, adapter: Path | None) -> Folder:
    is_adapter = (model / "adapter_config.json").is_file() and not (model / "config.json").is_file()
    if is_adapter and adapter is None:  # a checkpoint of LoRA training, given as if it were a model
        base = base_of_adapter(model)
        if base is None:
            raise MissingInputError(
                f"{model} is an adapter, and the model that it names is not on this machine",
                fix=f"Give both: --model-path MODEL --adapter {model}",
            )
        model, adapter = base, model
    check_model(model, adapter)
    return Folder(model, adapter)


def _endpoint_or_folder(api_config: Path, role: str) -> Arm:
    manager = ApiManager.load(api_config)
    local = manager.local_models().get(role)
    if local is not None:
        return _folder(Path(local), None)
    manager.endpoint(role)
    return manager


def name_by_content(arm: Arm, role: str | None) -> str:
    """A name that changes with the weights, or the endpoint's name of its model."""
    if isinstance(arm, ApiManager):
        return arm.endpoint(role or "").model
    return f"{arm.name} ({content_digest([arm.model, *([arm.adapter] if arm.adapter else [])])})"


def draws_by_server(settings: EvaluateSettings, arm: Arm) -> list[dict[str, Sampling]]:
    """The draws of an arm by the servers they need: where one knows one temperature only, each draw has its own."""
    common = Sampling(max_tokens=settings.max_tokens, seed=settings.seed)
    sampled = common.model_copy(update={"temperature": settings.temperature, "top_p": settings.top_p})
    draws = {SAMPLED: sampled, **({GREEDY: common.model_copy(update={"temperature": 0.0})} if settings.greedy else {})}
    if isinstance(arm, Folder) and choose_engine(settings.engine).has_one_sampling:
        return [{name: draw} for name, draw in draws.items()]
    return [draws]


@dataclass(frozen=True)
class Served:
    """An endpoint that can be asked; ``check`` raises where its server has ended."""

    manager: ApiManager
    role: str
    retry: RetryPolicy
    budget: Budget
    ledger: RateLedger | None
    check: Callable[[], None]


@contextlib.contextmanager
def served(settings: EvaluateSettings, arm: Arm, sampling: Sampling) -> Iterator[Served]:
    """The endpoint to ask for the length of the block."""
    if isinstance(arm, ApiManager):
        with closing(RateLedger(ledger_path(settings.api_config))) as ledger:
            budget = Budget(usd=settings.budget_usd, tokens=settings.budget_tokens)
            yield Served(arm, settings.role or "", RetryPolicy(), budget, ledger, lambda: None)
        return
    log = settings.output.with_suffix(".server.log")
    temperature = 1.0 if sampling.temperature is None else sampling.temperature
    print(f"starting {arm.name} (temperature {temperature:g}) ...", flush=True)
    with local_server(
        arm.model, engine=settings.engine, adapter=arm.adapter, temperature=temperature, top_p=sampling.top_p, log=log
    ) as server:

        def check() -> None:
            if server.ended():
                raise ConfigurationError(
                    "The local server has ended",
                    why=f"Its output stands in {log}.",
                    fix="The same command starts it again and goes on; nothing that was answered is lost.",
                )

        manager = ApiManager(settings.output, {_LOCAL_ROLE: server.endpoint()})
        yield Served(manager, _LOCAL_ROLE, RetryPolicy(total_s=_LOCAL_PATIENCE_S), Budget(), None, check)
