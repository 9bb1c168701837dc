"""Settings that several commands share: the endpoints, the client's, and ``--resume`` and ``--fresh``."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TextIO

from pydantic import AfterValidator, Field, field_validator, model_validator

from engine.api_manager import DEFAULT_ROLE, PRICES, ApiManager
from engine.errors import ConfigurationError, MissingInputError
from engine.llm.budget import Budget
from grpo_training.cli.settings import POCKET_MODEL, WORKING_DIR, Common, Positive, Settings

if TYPE_CHECKING:
    from engine.ray_cluster import RayCluster


def _one_spelling(place: str) -> str:
    """``FILE.py:NAME`` with the shortest path, so that a file under two spellings is one configuration."""
    file, colon, name = place.rpartition(":")
    if not file.endswith(".py"):
        return place
    here = Path.cwd()
    path = Path(os.path.normpath(here / Path(file).expanduser()))
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}{colon}{name}"


TaskPlace = Annotated[str, AfterValidator(_one_spelling)]
"""Name of a task, ``FILE.py:NAME`` or ``MODULE:NAME``."""

PROMPTS_HELP = (
    "how the model is asked: full, a folder of prompts/ such as compact, or a text file with instructions of your own "
    "(the system message; with {{ problem }} in it the user message)"
)

HOW_ASKED = ("prompts", "temperature", "top_p", "max_tokens")
"""Settings in which answers may differ from those that experiences were learned from."""

_OPENAI_KEY = "OPENAI_API_KEY"
ENDPOINT_FIELDS = ("base_url", "model", "api_key_env", "api_config", *PRICES, "reasoning_effort")


class EndpointSettings(Settings):
    """Base of the settings of a command that asks endpoints: a configuration file, or one endpoint by flags."""

    group: ClassVar[str] = "endpoint and budget"

    base_url: Common[str | None] = Field(
        None, description="one OpenAI-compatible endpoint for all roles, instead of --api-config; needs --model"
    )
    model: Common[str | None] = Field(None, description="name of the model at the endpoint, for all roles")
    api_key_env: Common[str | None] = Field(
        None, description="environment variable that contains the API key of --base-url"
    )
    api_config: Common[Path] = Field(
        WORKING_DIR / "data/api_keys/api_config.json", description="endpoints and API keys"
    )
    price_in: float | None = Field(None, ge=0, description="USD per million prompt tokens, for all roles")
    price_out: float | None = Field(None, ge=0, description="USD per million completion tokens, for all roles")
    price_cached: float | None = Field(
        None, ge=0, description="USD per million prompt tokens from the server's cache (default: as --price-in)"
    )

    reasoning_effort: str | None = Field(
        None, description="how much a reasoning model thinks, such as low or high (default: the server's)"
    )

    @field_validator("base_url")
    @classmethod
    def _without_path(cls, value: str | None) -> str | None:
        return value and value.rstrip("/").removesuffix("/chat/completions")

    @model_validator(mode="after")
    def _base_url_with_model(self) -> Self:
        if self.base_url is not None and self.model is None:
            raise ValueError("--base-url needs --model NAME, the name of the model there (GET /models lists them)")
        return self

    def load_endpoints(self) -> ApiManager:
        """The endpoints: that of ``--base-url``, or those of the file with the other flags in every entry.

        Without both, a model is asked where the SDK of OpenAI would ask it: ``OPENAI_API_KEY``, ``OPENAI_BASE_URL``.

        Raises:
            MissingInputError, ConfigurationError: as :meth:`ApiManager.load`.
        """
        given: dict[str, Any] = {name: getattr(self, name) for name in PRICES}
        if self.base_url is not None and self.model is not None:
            manager = ApiManager.for_one_endpoint(self.base_url, self.model, self.api_key_env)
        elif self.model is not None and os.environ.get(_OPENAI_KEY) and not self.api_config.exists():
            url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
            manager = ApiManager.for_one_endpoint(url, self.model, self.api_key_env or _OPENAI_KEY)
        else:
            manager = ApiManager.load(self.api_config)
            given |= {"model": self.model, "api_key_env": self.api_key_env}
        if self.reasoning_effort is not None:
            given["extra_body"] = {"reasoning_effort": self.reasoning_effort}
        return manager.with_fields({name: value for name, value in given.items() if value is not None})


class DryRunSettings(EndpointSettings):
    """Base of the settings of a command that can show what it would ask, without a key or an endpoint."""

    group: ClassVar[str] = "run"

    dry_run: Common[bool] = Field(False, description="show what would be asked, and what it costs, and stop")

    def load_endpoints(self) -> ApiManager:
        """As the base; in a dry run without keys, and with names only where there is no configuration."""
        if not self.dry_run:
            return super().load_endpoints()
        try:
            return super().load_endpoints().without_keys()
        except MissingInputError:
            prices = {name: getattr(self, name) for name in PRICES}
            entry = {"api_key": "EMPTY", "base_url": "http://localhost/v1", "model": "model", **prices}
            return ApiManager(self.api_config, {DEFAULT_ROLE: entry})

    def to_ask(self) -> Self:
        """The settings of the run that a dry run is about."""
        return self.model_copy(update={"dry_run": False})


def tell_what_is_missing(check: Callable[[], object], stream: TextIO) -> None:
    """Print what a run could not begin without, such as a key: the error of ``check``, if it raises one."""
    try:
        check()
    except (ConfigurationError, MissingInputError) as error:
        sentences = [sentence.rstrip(".") for sentence in (error.what, error.why, error.fix) if sentence]
        print(f"\nBefore anything can be asked: {'. '.join(sentences)}.", file=stream)


class BudgetSettings(Settings):
    """Base of the settings of a command that may spend money at endpoints."""

    group: ClassVar[str] = "endpoint and budget"

    budget_usd: Common[float | None] = Field(
        None,
        ge=0,
        description="stop before this start costs more; needs prices in --api-config, or --price-in and --price-out",
    )
    budget_tokens: Common[Positive | None] = Field(None, description="stop before this start uses more tokens")

    def open_budget(self) -> Budget:
        """The budget of this start."""
        return Budget(usd=self.budget_usd, tokens=self.budget_tokens)


class ClientSettings(EndpointSettings, BudgetSettings):
    """Base of the settings of a command that asks endpoints and stores their replies."""

    group: ClassVar[str] = "endpoint and budget"

    cache_dir: Path = Field(WORKING_DIR / "grpo_training/cache", description="directory of rollouts and stored replies")
    attempts: Positive = Field(8, description="maximum attempts per request; after that its problem stays open")
    retry_minutes: float = Field(15.0, gt=0, description="maximum time in minutes for the attempts of a request")
    connect_minutes: float = Field(
        2.0, gt=0, description="maximum time in minutes to reach an endpoint for the first time"
    )


class BatchSettings(Settings):
    """Base of the settings of a command that may ask in batches."""

    group: ClassVar[str] = "endpoint and budget"

    batch: bool = Field(
        False,
        description="ask through the batch API of the endpoint, such as that of OpenAI: half the price, and replies "
        "within 24 hours; after an interruption the same command finds its batches again",
    )


class ResumableSettings(Settings):
    """Base of the settings of a command whose results can be resumed."""

    group: ClassVar[str] = "run"
    fingerprinted: ClassVar[Sequence[str]] = ()
    """The fields that change the results, in the order in which the manifest lists them; empty: all but the next."""
    not_in_fingerprint: ClassVar[Collection[str]] = ()
    """The fields that do not change the results."""

    resume: bool = Field(
        False, description="continue with the settings that the results were made with, instead of the given ones"
    )
    fresh: bool = Field(
        False, description="rename the existing results and start over; libraries and stored replies stay"
    )

    @model_validator(mode="after")
    def _resume_or_fresh(self) -> Self:
        if self.resume and self.fresh:
            raise ValueError("--resume and --fresh exclude each other")
        return self

    def compared(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """The stored settings that have to equal :meth:`fingerprint`."""
        return dict(stored)

    def fingerprint(self) -> dict[str, Any]:
        """The values of the fields that change the results, as JSON values."""
        values = self.model_dump(mode="json")
        names = self.fingerprinted or [name for name in values if name not in self.not_in_fingerprint]
        return {name: values[name] for name in names}


PLACES = ("cache_dir", "experiences_dir")
"""The settings that the name of a run stands for."""


OF_POCKET: Mapping[str, Any] = {"prompts": "pocket", "temperature": 1.0, "max_tokens": 256, "cases": 0}
"""What the pocket model was trained with."""


class ScoringSettings(Settings):
    """Base of the settings of a command that can score answers on a Ray cluster."""

    group: ClassVar[str] = "machines"

    scoring: Literal["local", "ray"] = Field(
        "local",
        description="where answers are scored: local (this machine), or ray (the Ray cluster of --ray-address), for "
        "programs, games and simulations that need more processors than one machine has",
    )
    ray_address: str | None = Field(
        None,
        description="HOST:PORT of the Ray cluster (default: RAY_ADDRESS, else the one that this machine belongs to, "
        "else a Ray that is started for the run)",
    )

    @model_validator(mode="after")
    def _address_of_ray(self) -> Self:
        if self.ray_address is not None and self.scoring != "ray":
            raise ValueError("--ray-address needs --scoring ray")
        return self


def open_cluster(settings: ScoringSettings) -> AbstractContextManager[RayCluster | None]:
    """The Ray cluster on which answers are scored; None for this machine.

    Raises:
        ConfigurationError: Ray is not installed, or the cluster cannot be used.
    """
    if settings.scoring == "local":
        return nullcontext()
    try:
        from engine.ray_cluster import RayCluster  # loads Ray, which only this choice needs
    except ImportError as error:
        raise ConfigurationError(
            "--scoring ray needs Ray", why=str(error), fix="Install it: make ray, or pip install 'scaffold-grpo[ray]'."
        ) from None
    return RayCluster(settings.ray_address)


class FolderSettings(Settings):
    """Where a command that works on a run has its files."""

    group: ClassVar[str] = "run"

    run: Common[str | None] = Field(
        None,
        description="name of the run, whose cache and libraries are in runs/NAME (default: generators and improve make "
        "the name from dataset and model; other commands take the newest run)",
    )
    cache_dir: Path = Field(
        WORKING_DIR / "grpo_training/cache",
        description="directory of rollouts and stored replies, such as grpo_training/cache (default: that of the run)",
    )
    experiences_dir: Path = Field(
        WORKING_DIR / "data/grpo_experiences",
        description="directory of the libraries, such as data/grpo_experiences (default: that of the run)",
    )


class RoleSettings(FolderSettings, ClientSettings):
    """What the commands share that ask the endpoint of a role, or a local model in its place."""

    group: ClassVar[str] = "model and prompts"
    aliases: ClassVar[Mapping[str, str]] = {"prompt": "prompts", "program": "task"}

    temperature: float
    seed: int = Field(0, description="seed of the sampling, and of the order of problems from the 2nd epoch on")
    max_tokens: Positive | None = Field(None, description="maximum completion tokens of a reply")
    task: TaskPlace | None = Field(
        None, description="task of rows that name none, and one of your own: a name, FILE.py:NAME or MODULE:NAME"
    )
    prompts: Common[str] = Field("full", description=PROMPTS_HELP)
    endpoint: Common[Literal["config", "local"]] = Field(
        "config", description="config: as --base-url or --api-config say; local: serve a model folder during the run"
    )
    model: Common[str | None] = Field(
        None,
        description="name of the model at the endpoint, for all roles; for --endpoint local its folder, by default "
        "the pocket model of the project",
    )

    @model_validator(mode="after")
    def _one_endpoint(self) -> Self:
        if self.endpoint == "local" and self.base_url is not None:
            raise ValueError("--endpoint local and --base-url exclude each other")
        return self

    @property
    def local_model(self) -> Path:
        """The model folder of ``--endpoint local``."""
        return POCKET_MODEL if self.model is None else Path(self.model).expanduser()

    @property
    def asks_pocket_model(self) -> bool:
        """Whether the pocket model of the project is asked."""
        return self.endpoint == "local" and self.local_model.resolve() == POCKET_MODEL

    def for_its_model(self) -> Self:
        """With the prompts and the sampling that the pocket model was trained with, if no other prompts are given."""
        if not self.asks_pocket_model or ("prompts" in self.model_fields_set and self.prompts != OF_POCKET["prompts"]):
            return self
        known = type(self).model_fields.keys() - self.model_fields_set
        needed = {name: value for name, value in OF_POCKET.items() if name in known}
        return self.model_copy(update=needed)
