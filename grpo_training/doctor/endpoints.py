"""Checks of the API configuration and of the endpoints in it."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.api_manager import DEFAULT_ROLE, LEARNERS, ApiManager, how_to_configure
from engine.errors import ScaffoldError
from engine.installation_checks import CheckResult, failed, failure_of, passed, passed_if, skipped, warned
from engine.llm.client import LLMClient
from engine.llm.retry import RetryPolicy
from engine.records import ChatRequest, Fault, Message, Sampling
from grpo_training.doctor.settings import DoctorSettings

_TIMEOUT_S = 45
_MOST_TOKENS = 16
_NO_TEXT = (
    "Every answer would count as wrong. Check chat template, stop strings and reasoning parser of the server, or the "
    "content filter of the provider."
)
_FIXES = {**dict.fromkeys(("connection", "timeout"), "Start that server, or change base_url."), "empty_reply": _NO_TEXT}


def api_config(settings: DoctorSettings) -> Iterator[CheckResult]:
    """Whether the configuration can be read and every role in it is complete. Keys are not printed."""
    path = settings.api_config
    if settings.base_url is not None:
        yield _role(settings.load_endpoints(), DEFAULT_ROLE)
        return
    if not path.exists():
        yield warned(
            f"no API configuration at {path}: pass --base-url and --model to each command, or --endpoint local",
            how_to_configure(path),
        )
        return
    manager = settings.load_endpoints()
    if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        yield warned(f"{path} can be read by other users of this machine", f"chmod 600 {path}")
    for role in manager.roles():
        yield _role(manager, role)
    for role in LEARNERS:
        if not manager.has(role):
            yield warned(f"{role} is not configured", f'Add an entry "{role}" to {path}.')


def _role(manager: ApiManager, role: str) -> CheckResult:
    folder = manager.local_model(role)
    if folder is not None:
        has_model = (Path(folder) / "config.json").is_file()
        return passed_if(has_model, f"{role}: the model in {folder}", "Give the folder of a model (config.json ...).")
    try:
        endpoint = manager.endpoint(role)
    except ScaffoldError as error:
        return failure_of(error)
    key = "no key" if endpoint.api_key.get_secret_value() == "EMPTY" else "key present"
    api = "" if endpoint.api == "chat" else f"{endpoint.api} API, "
    return passed(f"{role}: {endpoint.model} at {endpoint.shown_url}, {api}{key}")


def ask_endpoints(settings: DoctorSettings) -> Iterable[CheckResult]:
    """One short request to each configured role."""
    manager = settings.load_endpoints().with_fields({"timeout_s": _TIMEOUT_S})
    return [asyncio.run(_ask(manager, role)) for role in manager.roles()]


async def _ask(manager: ApiManager, role: str) -> CheckResult:
    if manager.local_model(role) is not None:
        return skipped(f"{role}: the model in {manager.local_model(role)} is not served now")
    messages = (Message(role="user", content="Reply with the word: ready"),)
    request = ChatRequest(role=role, messages=messages, sampling=Sampling(max_tokens=_MOST_TOKENS), purpose="doctor")
    try:
        async with LLMClient(manager, retry=RetryPolicy(attempts=2, total_s=60.0)) as client:
            [reply] = await client.sample(request, [0])
    except ScaffoldError as error:
        return failure_of(error, "" if error.what.startswith(f"{role}:") else role)
    endpoint, completion = manager.endpoint(role), reply.completion
    if completion is None:
        fault = reply.fault or Fault(kind="unknown")
        why = fault.message if endpoint.shown_url in fault.message else f"{endpoint.shown_url}: {fault.message}"
        fix = _FIXES.get(fault.kind, "Check that server and base_url; the message says what it sent.")
        return failed(f"{role}: no answer: {why}", fix)
    tokens = completion.usage.prompt_tokens + completion.usage.completion_tokens
    answered = f"{role}: {endpoint.model} answered in {completion.latency_s:.1f} s ({tokens} tokens)"
    if completion.text.strip():
        return passed(answered)
    thought = f" and {len(completion.reasoning)} characters of reasoning" if completion.reasoning else ""
    if completion.finish_reason == "length":
        return passed(f"{answered}; the {_MOST_TOKENS} tokens of the reply were used up without any text{thought}")
    finish = completion.finish_reason
    return failed(f"{answered}, but the reply is empty: no text{thought}, finish_reason {finish}", _NO_TEXT)
