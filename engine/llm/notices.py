"""Says what is wrong with an endpoint and where: while its requests are retried, and when the run stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from engine.api_manager import Endpoint
from engine.errors import FatalEndpointError
from engine.llm.quirks import NO_MODEL, OPTIONAL, SYSTEM
from engine.llm.replies import ChatResponse, is_blank
from engine.llm.requests import format_of
from engine.llm.retry import RetryDecision
from engine.reading.model_text import as_one_line

_REPEAT_S = 30.0
_SILENT_S = 19.9
"""Silence of an endpoint is reported after so long, at the end of a step of :func:`engine.llm.cancellation.within`."""
_MANY_BLANKS, _BLANK_SHARE = 5, 0.1
"""A server is said to send blank replies after this many, if they are this share of all."""
_FEWEST_TOKENS = 64
"""Fewer reported prompt tokens are no prompt that was cut: the server does not count them."""
_told: set[tuple[str, str, str]] = set()
"""What was said of a model in this process, and is not said again: (address, model, topic)."""


class EndpointNotices:
    """Reports the trouble of endpoints in single lines: at most one per endpoint in 30 seconds.

    Args:
        tell: called with each line.
        clock: monotonic time in seconds.
    """

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float]) -> None:
        self.tell = tell
        self._clock = clock
        self._told_at: dict[str, float] = {}
        self._heard_at: dict[str, float] = {}
        self._silent: set[str] = set()
        self._blanks: dict[str, tuple[int, int]] = {}
        """Replies and those without text, by address."""

    def silent(self, endpoint: Endpoint, since: float) -> None:
        """Report once that nothing arrives from an endpoint while a request waits for its reply.

        Args:
            endpoint: where it was sent.
            since: when it was sent, in the time of the event loop.
        """
        url = endpoint.shown_url
        seconds = asyncio.get_running_loop().time() - max(since, self._heard_at.get(url, since))
        if seconds >= _SILENT_S and url not in self._silent and not self._was_told(endpoint):
            self._silent.add(url)
            given_up = f"requests are given up after {endpoint.timeout_s:g} s (timeout_s)"
            self._tell_of(endpoint, f"no reply from {url} for {seconds:.0f} s; {given_up}")

    def _was_told(self, endpoint: Endpoint) -> bool:
        """Whether there was a line about the endpoint a moment ago."""
        return abs(self._clock() - self._told_at.get(endpoint.shown_url, -_REPEAT_S)) < _REPEAT_S

    def _tell_of(self, endpoint: Endpoint, text: str) -> None:
        self._told_at[endpoint.shown_url] = self._clock()
        self.tell(text)

    def will_retry(self, endpoint: Endpoint, decision: RetryDecision, failures: int, answered: bool) -> None:
        """Report that a request failed for the ``failures``-th time and is sent again. The first time is not displayed.

        Args:
            endpoint: where it was sent.
            decision: why it failed.
            failures: 1 after the first failed attempt.
            answered: whether the endpoint has answered any request.
        """
        if failures < 2 or self._was_told(endpoint):
            return
        self._tell_of(endpoint, f"{describe(endpoint, decision, answered)} (trying again)")

    def long_wait(self, endpoint: Endpoint, decision: RetryDecision, seconds: float) -> None:
        """Report that a server asks to wait for longer than a request is retried."""
        asked = timedelta(seconds=round(min(decision.wait_s or 0.0, 1e9)))
        self._tell_of(
            endpoint,
            f"{describe(endpoint, decision, True)}; it asks to wait {asked}, which is beyond --retry-minutes: "
            f"one more attempt in {seconds:.0f} s",
        )

    def left_open(self, endpoint: Endpoint, decision: RetryDecision) -> None:
        """Report that a request alone failed, so that its problem stays open."""
        if not self._was_told(endpoint):
            longer = "; serve the model with a longer context, or shorten the prompts (--prompts compact)"
            hint = longer if decision.code == "context_too_long" else ""
            text = describe(endpoint, decision, True).rstrip(".")
            self._tell_of(endpoint, f"⚠ {text}. Others are answered: its problem stays open{hint}")

    def leaves_out(self, endpoint: Endpoint, name: str) -> None:
        """Report once that a part of requests is left out from now on, if that changes replies."""
        if instead := OPTIONAL[name].instead:
            refused = "a system message:" if name == SYSTEM else f"{name}: it is left out, and"
            self._tell_once(endpoint, name, f"{endpoint.model} does not take {refused} {instead}")

    def asks_for_more_tokens(self, endpoint: Endpoint, limit: int | None, more: int | None) -> None:
        """Report once that replies whose tokens were used up by thinking are asked for again."""
        self._tell_once(
            endpoint,
            f"thinking {limit}",
            f"{endpoint.model} thinks for longer than {limit:,} tokens (--max-tokens): such replies are asked for "
            f"again with {more:,}. With --max-tokens {more} they are paid for once",
        )

    def check_reply(self, endpoint: Endpoint, response: ChatResponse, least: int) -> None:
        """Report a server that reads only a part of long prompts, and one that sends many replies without text.

        Args:
            endpoint: the endpoint.
            response: its reply.
            least: the fewest tokens that the prompt has.
        """
        url, tokens = endpoint.shown_url, response.prompt_tokens
        if _FEWEST_TOKENS <= tokens < least / 2:
            self._tell_once(
                endpoint,
                "cut",
                f"⚠ {url} has read {tokens:,} tokens of a prompt that has at least {least:,}: it cuts long "
                "prompts without a word, and replies to what is left are worth nothing. Serve the model with a longer "
                "context (num_ctx of Ollama, --ctx-size of llama.cpp), or shorten the prompts (--prompts compact)",
            )
        spoken = [choice for choice in response.choices if choice and not choice.tool_calls]
        blanks = [choice for choice in spoken if is_blank(choice.text, choice.finish_reason)]
        total, blank = self._blanks.get(url, (0, 0))
        total, blank = self._blanks[url] = total + len(response.choices), blank + len(blanks)
        if blanks and blank >= max(_MANY_BLANKS, _BLANK_SHARE * total):
            last = blanks[-1]
            thoughts = f"its {len(last.reasoning)} characters are in the reasoning field" if last.reasoning else ""
            self._tell_once(
                endpoint,
                "blank",
                f"{url} sends blank replies: {blank} of {total} have no text although the model ended them (the last "
                f"one: finish_reason {last.finish_reason}, {response.completion_tokens} tokens, "
                f"{thoughts or 'no reasoning'}); each is asked for once more. Check chat template, stop strings and "
                "reasoning parser of the server",
            )

    def _tell_once(self, endpoint: Endpoint, topic: str, text: str) -> None:
        key = (endpoint.shown_url, endpoint.model, topic)
        if key not in _told:
            _told.add(key)
            self.tell(text)

    def answered(self, endpoint: Endpoint) -> None:
        """Note a reply of the endpoint."""
        self._heard_at[endpoint.shown_url] = asyncio.get_running_loop().time()
        self._silent.discard(endpoint.shown_url)


def describe(endpoint: Endpoint, decision: RetryDecision, answered: bool) -> str:
    """One line: what failed, and where.

    Args:
        endpoint: where the request was sent.
        decision: why it failed.
        answered: whether the endpoint has answered any request; if not, its address may be wrong.
    """
    url, line = endpoint.shown_url, as_one_line(endpoint.mask.message(decision.message))
    message = " ".join(line.split())[:200] or "no message"
    if decision.code == "connection":
        hint = "; is the server running?" if message == "connection refused" else ""
        return f"cannot reach {url}: {message}{hint}"
    if decision.code == "timeout":
        text = f"no complete reply from {url} within {endpoint.timeout_s:g} s"
    elif decision.code.startswith("http_"):
        text = f"{url} reports HTTP {decision.code.removeprefix('http_')}: {message}"
    elif decision.code in ("content_filter", "context_too_long"):
        cause = "content" if decision.code == "content_filter" else "length"
        text = f"{url} refused a request for its {cause}: {message}"
    elif decision.code in _FATAL:
        text = f"{url} refused a request: {message}"
    else:
        text = f"{url} sent a reply that cannot be used: {message}"
    # Most servers have their API below /v1.
    return text if answered or urlsplit(url).path not in ("", "/") else f"{text}; base_url has no /v1, is that right?"


def fatal_error(endpoint: Endpoint, decision: RetryDecision, path: Path | str) -> FatalEndpointError:
    """The error message of a refusal, with a fix. It never contains the key."""
    role, entry = endpoint.role, f"{endpoint.role} in {path}"
    why = endpoint.mask.message(decision.message)[:1000]
    if decision.code == "connection":
        return FatalEndpointError(
            f"{role}: cannot reach {endpoint.shown_url}",
            why=why,
            fix=f"Start the server, or correct base_url of {entry}. Then run the same command again. "
            "--connect-minutes sets how long a run waits for a server.",
        )
    why = f"{endpoint.shown_url}, model {endpoint.model}: {why}"
    no_such_path = decision.code in ("unknown_model", "http_405") and not NO_MODEL.search(decision.message)
    path_of_api = format_of(endpoint).path
    if no_such_path and urlsplit(endpoint.base_url).path in ("", "/"):
        return FatalEndpointError(
            f"{role}: there is no {endpoint.api} API at {endpoint.shown_url}",
            why=f"The server does not know POST {endpoint.shown_url}{path_of_api}, and base_url has no /v1.",
            fix=f'Set base_url of {entry} to "{endpoint.shown_url}/v1".',
        )
    what, fix = _FATAL.get(decision.code, _OTHER)
    if decision.code == "unknown_model" and endpoint.api != "chat":
        fix += ' Requests go to POST {url}{path}, as "api" is "{api}".'
    named = {"path": path_of_api, "api": endpoint.api}
    named |= {"entry": entry, "model": repr(endpoint.model), "url": endpoint.shown_url, "code": decision.code}
    return FatalEndpointError(f"{role}: {what.format(**named)}", why=why, fix=fix.format(**named))


_FATAL = {
    "bad_key": (
        "the endpoint refused the API key",
        "Check api_key or api_key_env of {entry}, and that the key belongs to this base_url.",
    ),
    **dict.fromkeys(
        ("http_401", "http_403"),
        (
            "the endpoint refused access",
            "The message above says why: the account, the network, the provider, or api_key of {entry} decides it.",
        ),
    ),
    "unknown_model": (
        "the endpoint has no model {model}",
        "Check model and base_url of {entry}; GET {url}/models lists the names.",
    ),
    "no_prompt_logprobs": (
        "the endpoint returns no log-probs of a given answer",
        "Use a server such as vLLM, whose chat API supports prompt_logprobs with continue_final_message.",
    ),
    "no_batches": (
        "--batch needs a batch API, and {url} has none",
        "Run the same command without --batch, or ask a provider with the batch API of OpenAI. Local servers such as "
        "vLLM have none.",
    ),
    "no_credit": ("the account has no credit left", "Add credit, or change {entry}."),
    "max_tokens_too_large": (
        "max_tokens exceeds the model's context length",
        "Lower max_tokens, or serve the model with a longer context.",
    ),
}
"""Code of a refusal -> what it means, and the fix."""
_OTHER = (
    "the endpoint refused the request ({code})",
    "Check base_url, model and extra_body of {entry}; the message above says what was refused.",
)
