"""Log-probs of given answers from an endpoint: the completions API with ``echo``, which servers such as vLLM offer."""

from __future__ import annotations

import asyncio
import json
import math
import random
from typing import TYPE_CHECKING, Any

from engine.errors import FatalEndpointError, IncompleteRunError
from engine.llm.retry import RequestContext, RetryAction, RetryPolicy
from engine.llm.transport import Transport, classify_exception

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from engine.api_manager import Endpoint


class AnswerScorer:
    """Scores answers with one endpoint. For one event loop; close it at the end.

    Args:
        endpoint: gives address, key and model.
        concurrency: the largest number of requests in flight.
        retry: how often a request is sent.
        sleep: as ``asyncio.sleep``.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        concurrency: int,
        retry: RetryPolicy,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._endpoint, self._retry, self._sleep = endpoint, retry, sleep
        self._slots = asyncio.Semaphore(concurrency)
        self._transport = Transport(endpoint, concurrency)
        self._known: dict[tuple[str, str], asyncio.Task[float]] = {}

    async def close(self) -> None:
        """Close the connections, and cancel what is in flight."""
        for task in self._known.values():
            task.cancel()
        await asyncio.gather(*self._known.values(), return_exceptions=True)
        await self._transport.close()

    def forget(self) -> None:
        """Drop the answers so far; the prompts of the next query are others."""
        self._known.clear()

    async def probability(self, prompt: str, answer: str) -> float:
        """The geometric mean of the probabilities of an answer's tokens after a prompt. Equal questions are asked once.

        Raises:
            FatalEndpointError: the endpoint refuses the request, or returns no log-probs of the prompt.
            IncompleteRunError: all attempts failed.
        """
        key = (prompt, answer)
        if key not in self._known:
            self._known[key] = asyncio.ensure_future(self._ask(prompt, answer))
        return await asyncio.shield(self._known[key])

    async def _ask(self, prompt: str, answer: str) -> float:
        body = {
            "model": self._endpoint.model,
            "prompt": prompt + answer,
            "max_tokens": 1,
            "temperature": 0,
            "echo": True,
            "logprobs": 1,
            **self._endpoint.extra_body,
        }
        async with self._slots:
            reply = await self._post(body)
        return math.exp(mean_logprob(reply, len(prompt), len(prompt) + len(answer), self._endpoint.role))

    async def _post(self, body: dict[str, Any]) -> bytes:
        url = f"{self._endpoint.base_url}/completions"
        rng = random.Random(0)  # noqa: S311 - jitter
        failures, waited = 0, 0.0
        while True:
            try:
                return await self._transport.post(body, {}, url)
            except Exception as error:
                decision = classify_exception(error, RequestContext(optional=("logprobs",), max_tokens=1))
                if decision is None:
                    raise
            failures += 1
            where = f"{self._endpoint.role} ({url}): {decision.code} {decision.message}".rstrip()
            if decision.action not in (RetryAction.RETRY, RetryAction.SLOW_DOWN):
                raise FatalEndpointError(
                    "The endpoint cannot score answers",
                    why=where,
                    fix="Use a server whose completions API returns log-probs of the prompt (echo), such as vLLM.",
                )
            wait_s = self._retry.wait_s(decision, failures, rng)
            if self._retry.exhausted(failures, waited, wait_s):
                raise IncompleteRunError(
                    f"No reply after {failures} attempts", why=where, fix="Run the same command again to continue."
                )
            waited += wait_s
            await self._sleep(wait_s)


def mean_logprob(reply: bytes, start: int, end: int, role: str) -> float:
    """The mean log-prob of the tokens of an echoed text between two characters.

    A token that begins before ``start`` and reaches into the answer counts for the answer.

    Args:
        reply: the body of the reply.
        start, end: first character of the answer, and the one after it.
        role: named in errors.

    Raises:
        FatalEndpointError: the reply has no log-probs of the prompt.
    """
    try:
        logprobs = json.loads(reply)["choices"][0]["logprobs"]
        tokens, values, offsets = logprobs["tokens"], logprobs["token_logprobs"], logprobs["text_offset"]
        found = [
            float(value)
            for token, value, offset in zip(tokens, values, offsets, strict=True)
            if offset < end and offset + len(token) > start and value is not None
        ]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        found, why = [], f"{type(error).__name__}: {error}"
    else:
        why = "No log-prob belongs to the answer; the server does not repeat the prompt."
    if not found or not all(map(math.isfinite, found)):
        raise FatalEndpointError(
            f"The endpoint of {role} returns no log-probs of a given text",
            why=why,
            fix="Use a server whose completions API supports echo with logprobs, such as vLLM.",
        )
    return sum(found) / len(found)
