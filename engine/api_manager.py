"""Maps roles to endpoints: address, model, key, limits and prices."""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from engine.errors import ConfigurationError, MissingInputError
from engine.reading.masking import (
    Mask,
    secrets_of_fields,
    secrets_of_url,
    shown_name,
    shown_url,
    without_secrets,
)
from engine.storage.data_folders import shipped_file

PRICES = ("price_in", "price_out", "price_cached")
BATCH_PRICE = 0.5
"""Price of a request in a batch, as a share of its usual price. Source: "Batch API" in the guides of OpenAI."""
_LARGEST = 10**9
"""Larger limits and times are mistakes; some do not fit into SQLite's integers."""

DEFAULT_PATH = Path("data/api_keys/api_config.json")

GENERATORS = ("generator_1", "generator_2", "generator_3")
LEARNERS = (*GENERATORS, "critic")
"""The roles that have a cache and an experience library."""
DEFAULT_ROLE = "default"
"""The entry that stands for every role without one."""
ANALYST_ROLE = "analyst"
JUDGE_ROLE = "reward_evaluator"
"""Needs an entry of its own, which may be empty: a judge costs one more request for each rollout."""
ROLES = (*LEARNERS, ANALYST_ROLE, JUDGE_ROLE, "teacher", DEFAULT_ROLE)
"""The roles of the project. A file may have others, for ``evaluate --role``."""
_PLACEHOLDER = re.compile(r"<.*>|.*\byour[-_ ].*|(sk-)?(\.{3}|x{3,})", re.IGNORECASE)
"""Texts that examples have in the place of a key, such as ``YOUR_KEY_HERE``."""
_PATH = re.compile(r"/(chat/completions|responses|messages)$")
COMMAND_LINE = "the command line (--base-url, --model, --api-key-env)"


class Endpoint(BaseModel):
    """The endpoint of one role. Printing or dumping it never shows the key.

    Args:
        role: the role.
        api_key: the key; ``EMPTY`` for local servers without keys.
        base_url: base URL, such as ``http://localhost:8129/v1``.
        api: the API of the endpoint: OpenAI's chat completions, OpenAI's Responses or Anthropic's Messages.
        model: name of the model on the server.
        max_concurrency: maximum number of requests in flight of one process; None: adaptive.
        rpm: requests per minute of one process; None: unlimited.
        tpm: tokens per minute of one process; None: unlimited.
        price_in: USD per million prompt tokens; None: unknown.
        price_out: USD per million completion tokens; None: unknown.
        price_cached: USD per million prompt tokens that the server had in its cache; None: as other prompt tokens.
        extra_body: further fields of the request body, sent unchanged.
        timeout_s: timeout of one attempt in seconds.
        never_send: optional parameters that the endpoint handles wrongly without an error: ``n``, ``seed``,
            ``response_format``, ``logprobs``, ``return_token_ids``, ``max_tokens``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, str_strip_whitespace=True)

    role: str
    api_key: SecretStr
    base_url: str = Field(min_length=1)
    api: Literal["chat", "responses", "anthropic"] = "chat"
    model: str = Field(min_length=1)
    max_concurrency: int | None = Field(default=None, ge=1, le=_LARGEST)
    rpm: int | None = Field(default=None, ge=1, le=_LARGEST)
    tpm: int | None = Field(default=None, ge=1, le=_LARGEST)
    price_in: float | None = Field(default=None, ge=0)
    price_out: float | None = Field(default=None, ge=0)
    price_cached: float | None = Field(default=None, ge=0)
    extra_body: dict[str, Any] = Field(default_factory=dict)
    timeout_s: float = Field(default=600.0, gt=0, le=_LARGEST)
    never_send: tuple[Literal["n", "seed", "response_format", "logprobs", "return_token_ids", "max_tokens"], ...] = ()

    @field_validator("base_url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https"):
            raise ValueError("must start with http:// or https://")
        if "@" in parts.netloc:
            raise ValueError("has a user name or a password; use api_key, which is sent as a header")
        if not parts.hostname or parts.port == 0 or not value.isprintable() or " " in value or "\\" in value:
            raise ValueError("must be an address such as http://localhost:8129/v1")
        if path := _PATH.search(parts.path.rstrip("/")):
            raise ValueError(f"ends with {path[0]}, which is added to it; leave that out")
        return value.rstrip("/")

    @field_validator("extra_body")
    @classmethod
    def _is_json(cls, value: dict[str, Any]) -> dict[str, Any]:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()  # raises ValueError
        return value

    @field_validator("api_key")
    @classmethod
    def _fits_a_header(cls, value: SecretStr) -> SecretStr:
        key = value.get_secret_value()
        if not key.isascii() or not key.isprintable() or " " in key:
            raise ValueError("must be printable ASCII without spaces (a line break or a typographic dash?)")
        return value

    def cost_usd(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> float | None:
        """The cost of these tokens in USD; None if a price is not configured.

        Args:
            prompt_tokens: of the prompt, those from a cache included.
            completion_tokens: of the reply.
            cached_tokens: of the prompt, that the server had in its cache.
        """
        if self.price_in is None or self.price_out is None:
            return None
        cached = self.price_in if self.price_cached is None else self.price_cached
        of_prompt = (prompt_tokens - cached_tokens) * self.price_in + cached_tokens * cached
        return (of_prompt + completion_tokens * self.price_out) / 1e6

    @cached_property
    def in_batches(self) -> Endpoint:
        """The endpoint with the prices of its batch API."""
        prices = {name: BATCH_PRICE * price for name in PRICES if (price := getattr(self, name)) is not None}
        return self.model_copy(update=prices)

    @cached_property
    def mask(self) -> Mask:
        """Masks the key, and the secrets in ``base_url`` and ``extra_body``."""
        key = self.api_key.get_secret_value()
        return Mask([key, *secrets_of_url(self.base_url), *secrets_of_fields(self.extra_body)])

    @cached_property
    def shown_url(self) -> str:
        """``base_url`` as it may be printed and stored."""
        return shown_url(self.base_url, self.api_key.get_secret_value())

    @cached_property
    def shown_extra_body(self) -> dict[str, Any]:
        """``extra_body`` as it may be printed and stored."""
        return dict(without_secrets(self.extra_body))


_NAMES = (*(name for name in Endpoint.model_fields if name != "role"), "api_key_env")


class ApiManager:
    """The endpoints of one configuration file, by role.

    The entry ``default`` stands for every role without an entry, except ``reward_evaluator``. An entry without
    ``base_url`` takes from ``default`` what it does not name.

    Args:
        path: the file, or another name of the place where the entries come from; named in errors.
        entries: role -> fields, as in the file.
        environ: environment variables for ``api_key_env``; those of the process by default.
    """

    def __init__(
        self, path: Path | str, entries: Mapping[str, Mapping[str, Any]], environ: Mapping[str, str] | None = None
    ) -> None:
        self.path = path
        self._entries = dict(entries)
        self._environ = os.environ if environ is None else environ
        self._endpoints: dict[str, Endpoint] = {}
        for role, entry in self._entries.items():
            letters = re.sub("[-_ ]", "", role.lower())
            meant = next((known for known in ROLES if known.replace("_", "") == letters), role)
            if meant != role:  # `default` would stand for the role that was meant
                raise ConfigurationError(f"Unknown role {role!r} in {path}", fix=f"Write {meant!r}.")
            unknown = next((name for name in entry if name not in _NAMES), None)
            if unknown is not None:
                near = difflib.get_close_matches(unknown, _NAMES, n=1, cutoff=0.0)
                raise ConfigurationError(
                    f"Unknown field {shown_name(unknown)} for {role} in {path}",
                    fix=f"Did you mean {near[0]!r}? Valid fields: {', '.join(sorted(_NAMES))}.",
                )

    @classmethod
    def load(cls, path: Path = DEFAULT_PATH, environ: Mapping[str, str] | None = None) -> ApiManager:
        """Read the file.

        Raises:
            MissingInputError: the file does not exist.
            ConfigurationError: the file is not a JSON object of objects, or a field is unknown.
        """
        try:
            entries = json.loads(path.read_text(encoding="utf-8-sig"))
        except (FileNotFoundError, IsADirectoryError):
            raise MissingInputError(f"API configuration not found: {path}", fix=how_to_configure(path)) from None
        except (ValueError, RecursionError) as error:  # its message has no part of the text, which contains keys
            raise ConfigurationError(
                f"{path} is not valid JSON",
                why=str(error),
                fix="Correct it: JSON is UTF-8 text without comments and without trailing commas.",
            ) from None
        if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
            raise ConfigurationError(
                f"{path} must be a JSON object with one object per role",
                fix='Write {"generator_1": {"api_key": "...", "base_url": "...", "model": "..."}, ...}.',
            )
        return cls(path, entries, environ)

    @classmethod
    def for_one_endpoint(
        cls, base_url: str, model: str, api_key_env: str | None = None, environ: Mapping[str, str] | None = None
    ) -> ApiManager:
        """One endpoint for all roles, as the command line describes it. Without ``api_key_env`` no key is sent."""
        key = {"api_key_env": api_key_env} if api_key_env else {"api_key": "EMPTY"}
        return cls(COMMAND_LINE, {DEFAULT_ROLE: {"base_url": base_url, "model": model, **key}}, environ)

    def has(self, role: str) -> bool:
        """Whether the role has an entry, or ``default`` stands for it."""
        return role in self._entries or (DEFAULT_ROLE in self._entries and role != JUDGE_ROLE)

    def role_of(self, helper: str, role: str) -> str:
        """Who does the work of a helper, such as the analyst: its own role if it is configured, else ``role``."""
        return helper if self.has(helper) else role

    def local_model(self, role: str) -> str | None:
        """The model of a role with ``base_url: local``, on this machine and not served yet; None for other roles."""
        entry = self._entry(role) if self.has(role) else {}
        return str(entry.get("model", "")) if entry.get("base_url") == "local" else None

    def local_models(self) -> dict[str, str]:
        """Role -> model for the roles of the file with ``base_url: local``."""
        return {role: model for role in self._entries if (model := self.local_model(role)) is not None}

    def with_entries(self, entries: Mapping[str, Mapping[str, Any]]) -> ApiManager:
        """A copy with some fields of some roles replaced."""
        replaced = {role: {**self._entry(role), **fields} for role, fields in entries.items() if self.has(role)}
        return ApiManager(self.path, {**self._entries, **replaced}, self._environ)

    def with_copies(self, copies: Mapping[str, tuple[str, Mapping[str, Any]]]) -> ApiManager:
        """A copy with further roles.

        Args:
            copies: new role -> the role whose entry it has, and the fields that are replaced. With another model it has
                no prices but given ones.
        """
        entries = dict(self._entries)
        for new, (role, fields) in copies.items():
            entry = self._entry(role)
            if fields.get("model", entry.get("model")) != entry.get("model"):
                entry = {name: value for name, value in entry.items() if name not in PRICES}
            entries[new] = {**entry, **fields}
        return ApiManager(self.path, entries, self._environ)

    def with_fields(self, fields: Mapping[str, Any]) -> ApiManager:
        """A copy with these fields replaced in every entry of the file; ``extra_body`` is added to that of each."""
        without_key = {"api_key": ""} if "api_key_env" in fields else {}
        entries = {}
        for role, entry in self._entries.items():
            entries[role] = {**entry, **without_key, **fields}
            if "extra_body" in fields:
                given = self._entry(role).get("extra_body")
                entries[role]["extra_body"] = {**(given if isinstance(given, dict) else {}), **fields["extra_body"]}
        return ApiManager(self.path, entries, self._environ)

    def without_keys(self) -> ApiManager:
        """A copy in which no role needs a key, for a look at models and prices. It cannot be asked."""
        return self.with_fields({"api_key": "EMPTY"})

    def roles(self) -> list[str]:
        """The roles in the order of the file."""
        return list(self._entries)

    def endpoint(self, role: str) -> Endpoint:
        """The endpoint of a role.

        Raises:
            ConfigurationError: the role, its key or a required field is missing, or a value is invalid.
        """
        if role in self._endpoints:
            return self._endpoints[role]
        entry = self._entry(role)
        variable = entry.pop("api_key_env", None)
        if not entry.get("api_key"):
            if not variable:
                raise self._no_key(role, f"The entry in {self.path} has no api_key and no api_key_env.")
            if not isinstance(variable, str) or not self._environ.get(variable):
                raise ConfigurationError(
                    f"The environment variable {shown_name(variable)} is not set",
                    why=f"{self.path} names it as the place of the key of {role}.",
                    fix="Set it with `export`, then run the same command again; or give the key itself as api_key "
                    '("EMPTY" for a local server without keys).',
                )
            entry["api_key"] = self._environ[variable].strip()
        if _PLACEHOLDER.fullmatch(str(entry["api_key"]).strip()):
            raise ConfigurationError(
                f"The API key of {role} is still a placeholder",
                why=f"It is the text of an example ({self.path}).",
                fix='Write the key itself there ("EMPTY" for a local server without keys), or remove the entry.',
            )
        try:
            self._endpoints[role] = Endpoint(role=role, **entry)
        except ValidationError as error:
            # Only field names and reasons: the rejected input may be the key.
            faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            faults = faults.replace(": Value error, ", ": ")
            raise ConfigurationError(
                f"Invalid entry {role!r} in {self.path}", why=faults, fix="Correct these fields."
            ) from None
        return self._endpoints[role]

    def _entry(self, role: str) -> dict[str, Any]:
        """The fields of a role, completed from ``default``. A key is never taken over for another address.

        Raises:
            ConfigurationError: neither the role nor ``default`` for it has an entry.
        """
        if not self.has(role):
            raise self._no_key(role, f"{self.path} has no entry {role!r} and no entry {DEFAULT_ROLE!r}.")
        entry = self._entries.get(role, {})
        default = self._entries.get(DEFAULT_ROLE, {})
        if role == DEFAULT_ROLE or "base_url" in entry:
            return dict(entry)
        dropped: set[str] = set()
        if "api_key" in entry or "api_key_env" in entry:
            dropped |= {"api_key", "api_key_env"}
        if entry.get("model", default.get("model")) != default.get("model"):
            dropped |= set(PRICES)
        return {name: value for name, value in default.items() if name not in dropped} | dict(entry)

    def _no_key(self, role: str, why: str) -> ConfigurationError:
        places = '"default"' if role == DEFAULT_ROLE else f'"{role}" or to "default"'
        return ConfigurationError(
            f"API key not found for {role}",
            why=why,
            fix=f'Add "api_key" to {places} in {self.path} ("EMPTY" for a local server without keys), '
            'or "api_key_env" with the name of an environment variable that contains the key.',
        )


def how_to_configure(path: Path) -> str:
    """What to do where the configuration file is missing."""
    example = shipped_file("api_keys/api_config.json.example")
    make_folder = "" if path.parent.is_dir() else f"mkdir -p {shlex.quote(str(path.parent))} && "
    return (
        "Pass --base-url URL --model NAME [--api-key-env VARIABLE], or --model NAME with OPENAI_API_KEY set; or write "
        "a file: "
        f"{make_folder}cp {shlex.quote(str(example))} {shlex.quote(str(path))}"
    )
