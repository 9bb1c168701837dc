"""Checks of the API configuration and of the endpoints in it."""

from __future__ import annotations

import asyncio
import difflib
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from agents.teacher import ROLE
from engine.api_manager import ANALYST_ROLE, DEFAULT_ROLE, JUDGE_ROLE, LEARNERS, ApiManager, how_to_configure
from engine.contract.checks import CheckResult, failed, failure_of, passed, passed_if, skipped, warned
from engine.errors import ScaffoldError
from engine.llm.client import LLMClient
from engine.llm.retry import RetryPolicy
from engine.records import ChatRequest, Fault, Message, Sampling
from grpo_training.doctor.settings import DoctorSettings

_OPTIONAL_ROLES = {
    ANALYST_ROLE: "; each learner then writes its own experiences",
    JUDGE_ROLE: "; rewards are then computed without a judge",
    ROLE: "; teacher traces cannot be generated",
}
_TIMEOUT_S = 90
_MOST_TOKENS = 16
_NO_TEXT = (
    "Every answer would count as wrong. Check chat template, stop strings and reasoning parser of the server, or the "
    "content filter of the provider."
)
_FIXES = dict.fromkeys(("connection", "timeout"), "Start that server, or change base_url.") | {"empty_reply": _NO_TEXT}


def api_config(settings: DoctorSettings) -> Iterator[CheckResult]:
    """Whether the configuration can be read and every role in it is complete. Keys are not printed."""
    path = settings.api_config
    if settings.base_url is not None:
        yield _role(settings.load_endpoints(), DEFAULT_ROLE, None)
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
    local = manager.local_models()
    for role in manager.roles():
        yield _role(manager, role, local.get(role))
    for role in (*LEARNERS, *_OPTIONAL_ROLES):
        if not manager.has(role):
            yield warned(
                f"{role} is not configured{_OPTIONAL_ROLES.get(role, '')}", f'Add an entry "{role}" to {path}.'
            )


def _role(manager: ApiManager, role: str, local_model: str | None) -> CheckResult:
    known = (*LEARNERS, *_OPTIONAL_ROLES, DEFAULT_ROLE)
    if role not in known:
        near = difflib.get_close_matches(role, known, 1, cutoff=0.0)
        return warned(f"Unknown role {role!r} in {manager.path}", f"Did you mean {near[0]!r}?")
    if local_model is not None:
        has_model = (Path(local_model) / "config.json").is_file()
        return passed_if(
            has_model, f"{role}: the model in {local_model}", "Give the folder of a model (config.json ...)."
        )
    try:
        endpoint = manager.endpoint(role)
    except ScaffoldError as error:
        return failure_of(error)
    key = "no key" if endpoint.api_key.get_secret_value() == "EMPTY" else "key present"
    return passed(f"{role}: {endpoint.model} at {endpoint.shown_url}, {key}")


def ask_endpoints(settings: DoctorSettings) -> Iterable[CheckResult]:
    """One short request to each configured role."""
    return asyncio.run(_ask_all(settings.load_endpoints()))


async def _ask_all(manager: ApiManager) -> list[CheckResult]:
    local = manager.local_models()
    results = [skipped(f"{role}: the model in {local[role]}, which is not served now") for role in local]
    for role in manager.roles():
        if role not in local:
            async with LLMClient(manager, retry=RetryPolicy(attempts=2, total_s=30.0)) as client:
                results.append(await _ask(client, manager, role))
    return results


async def _ask(client: LLMClient, manager: ApiManager, role: str) -> CheckResult:
    messages = (Message(role="user", content="Reply with the word: ready"),)
    request = ChatRequest(role=role, messages=messages, sampling=Sampling(max_tokens=_MOST_TOKENS), purpose="doctor")
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            [reply] = await client.sample(request, [0])
    except ScaffoldError as error:
        return failure_of(error, "" if error.what.startswith(f"{role}:") else role)
    except TimeoutError:
        return failed(f"{role}: no answer within {_TIMEOUT_S} s", "Check the server, or change base_url.")
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
    finish, reasoning = completion.finish_reason, completion.reasoning
    if finish == "length" and reasoning:
        return passed(f"{answered}, which it used up for thinking")
    if finish == "length":
        return warned(
            f"{answered}, but the {_MOST_TOKENS} tokens of the reply were used up without any text",
            "Look at a few replies before a long run: a model that thinks unseen needs more than this check gives.",
        )
    thought = f" and {len(reasoning)} characters of reasoning" if reasoning else ""
    return failed(f"{answered}, but the reply is empty: no text{thought}, finish_reason {finish}", _NO_TEXT)
