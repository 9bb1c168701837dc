"""Log-probs of given answers from an endpoint, as servers such as vLLM offer them.

Without images the completions API is asked with ``echo``. With images it is the chat API: the answer is the start of
the assistant's message, and ``prompt_logprobs`` gives the log-probs of its tokens.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import random
from collections.abc import Sequence
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_result

from engine.api_manager import Endpoint
from engine.errors import FatalEndpointError, IncompleteRunError
from engine.llm.journal import ResponseJournal
from engine.llm.limits.budget import Budget
from engine.llm.retry import RequestContext, RetryAction, RetryDecision, RetryPolicy
from engine.llm.wire.failed_replies import reported_error
from engine.llm.wire.replies import read_object, reported_tokens
from engine.llm.wire.requests import TOKENS_PER_IMAGE, wire_messages
from engine.llm.wire.transport import CHAT_PATH, COMPLETIONS_PATH, Transport, classify_exception
from engine.records import ChatRequest, Completion, Message, Sampling, Usage

_FIX = (
    "Use a server such as vLLM: its completions API supports echo with logprobs, and its chat API, for images, "
    "prompt_logprobs with continue_final_message."
)
_ROUNDING = 1e-3
DRAIN_S = 60.0
"""Seconds for which a search that is stopped waits for the requests in flight, to keep their replies."""


class AnswerScorer:
    """Scores answers with one endpoint. For one event loop; close it at the end.

    Args:
        endpoint: gives address, key, model and prices.
        concurrency: the largest number of requests in flight.
        retry: how often a request is sent.
        journal: stores every reply before it is used, and answers for those that it has.
        budget: limits on tokens and money.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        concurrency: int,
        retry: RetryPolicy,
        journal: ResponseJournal,
        budget: Budget,
    ) -> None:
        self._endpoint, self._retry, self._journal, self._budget = endpoint, retry, journal, budget
        self._slots = asyncio.Semaphore(concurrency)
        self._transport = Transport(endpoint, concurrency)
        self._tasks: set[asyncio.Task[float]] = set()
        self._sent: set[asyncio.Task[Any] | None] = set()

    async def close(self) -> None:
        """Close the connections. What was sent may end first, so that a reply that is paid for is stored."""
        for task in self._tasks:
            if task not in self._sent:
                task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=DRAIN_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._transport.close()

    async def probability(self, prompt: str, answer: str, images: Sequence[str] = ()) -> float:
        """The geometric mean of the probabilities of an answer's tokens after a prompt.

        Args:
            prompt: the text before the answer.
            answer: the text whose probability is asked for.
            images: data URLs; each stands where the prompt has an :data:`engine.records.IMAGE_MARK`.

        Raises:
            FatalEndpointError: the endpoint refuses the request, or returns no log-probs of the prompt.
            IncompleteRunError: all attempts failed.
            BudgetExceededError: the request could exceed the budget.
        """
        task = asyncio.ensure_future(self._ask(prompt, tuple(images), answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _ask(self, prompt: str, images: tuple[str, ...], answer: str) -> float:
        body = self._chat_body(prompt, images, answer) if images else self._text_body(prompt, answer)
        asked = json.dumps({"body": body, "answer_at": len(prompt)}, sort_keys=True)
        key = hashlib.sha256(asked.encode()).hexdigest()
        stored = self._journal.get_many([key]).get(key)
        if stored is None:
            async with self._slots:
                size = len((prompt + answer).encode("utf-8", "replace"))  # a token has at least one byte
                reply, usage = await self._post(body, size + 16 + TOKENS_PER_IMAGE * len(images))
            role = self._endpoint.role
            if images:
                logprobs = chat_answer_logprobs(reply, answer, role)
            else:
                logprobs = answer_logprobs(reply, len(prompt), len(prompt) + len(answer), role)
            completion = Completion(
                text=answer, usage=usage, model=self._endpoint.model, request_key=key, logprobs=logprobs
            )
            stored = await self._journal.put(key, completion)
        assert stored.logprobs
        return math.exp(sum(stored.logprobs) / len(stored.logprobs))

    def _text_body(self, prompt: str, answer: str) -> dict[str, Any]:
        return {
            "model": self._endpoint.model,
            "prompt": prompt + answer,
            "max_tokens": 1,
            "temperature": 0,
            "echo": True,
            "logprobs": 1,
            **self._endpoint.extra_body,
        }

    def _chat_body(self, prompt: str, images: tuple[str, ...], answer: str) -> dict[str, Any]:
        request = ChatRequest(
            role=self._endpoint.role,
            messages=(Message(role="user", content=prompt),),
            sampling=Sampling(temperature=0.0, max_tokens=1),
            purpose="evaluation",
            images=images,
        )
        return {
            "model": self._endpoint.model,
            "messages": [*wire_messages(request), {"role": "assistant", "content": answer}],
            "max_tokens": 1,
            "temperature": 0,
            "add_generation_prompt": False,
            "continue_final_message": True,
            "prompt_logprobs": 0,  # of the tokens themselves only
            **self._endpoint.extra_body,
        }

    async def _post(self, body: dict[str, Any], tokens: int) -> tuple[bytes, Usage]:
        """Send a request of at most so many tokens until it is answered. Each attempt reserves the most it may cost."""
        rng = random.Random(0)  # noqa: S311 - jitter

        def decision(state: RetryCallState) -> Any:
            return state.outcome.result() if state.outcome else None

        def is_used_up(state: RetryCallState) -> bool:
            return self._retry.exhausted(state.attempt_number, state.idle_for, state.upcoming_sleep)

        retrying = AsyncRetrying(
            retry=retry_if_result(
                lambda result: (
                    isinstance(result, RetryDecision) and result.action in (RetryAction.RETRY, RetryAction.SLOW_DOWN)
                )
            ),
            wait=lambda state: self._retry.wait_s(decision(state), state.attempt_number, rng),
            stop=is_used_up,
            retry_error_callback=decision,
        )
        result: tuple[bytes, Usage] | RetryDecision = await retrying(self._attempt, body, tokens)
        if not isinstance(result, RetryDecision):
            return result
        url = f"{self._endpoint.base_url}/{'completions' if 'prompt' in body else 'chat/completions'}"
        where = f"{self._endpoint.role} ({url}): {result.code} {result.message}".rstrip()
        if result.action in (RetryAction.RETRY, RetryAction.SLOW_DOWN):
            attempts = retrying.statistics["attempt_number"]
            raise IncompleteRunError(
                f"No reply after {attempts} attempts", why=where, fix="Run the same command again to continue."
            )
        raise FatalEndpointError(
            "The endpoint cannot score answers",
            why=where,
            fix=_FIX,
        )

    async def _attempt(self, body: dict[str, Any], tokens: int) -> tuple[bytes, Usage] | RetryDecision:
        largest = tokens, 1
        hold = await self._budget.hold(sum(largest), self._endpoint.cost_usd(*largest))
        used = largest  # also of an attempt that is cancelled
        task = asyncio.current_task()
        self._sent.add(task)
        try:
            reply = await self._transport.post(body, {}, path=COMPLETIONS_PATH if "prompt" in body else CHAT_PATH)
            payload = read_object(reply)
            if isinstance(payload, RetryDecision):
                return payload
            prompt, completion = reported_tokens(payload)
            used = (prompt, completion) if prompt else largest
            if (failure := reported_error(payload)) is not None:
                return failure
            cost = self._endpoint.cost_usd(*used)
            return reply, Usage(prompt_tokens=used[0], completion_tokens=used[1], cost_usd=cost)
        except Exception as error:
            decision = classify_exception(error, RequestContext(optional=("logprobs",), max_tokens=1))
            used = largest if decision is not None and decision.may_be_billed else (0, 0)
            if decision is None:
                raise
            return decision
        finally:
            self._sent.discard(task)
            self._budget.settle(hold, sum(used), self._endpoint.cost_usd(*used))


def chat_answer_logprobs(reply: bytes, answer: str, role: str) -> list[float]:
    """The log-probs of the last tokens of a chat prompt that ends with an answer.

    Args:
        reply: the body of the reply.
        answer: the end of the prompt. A token that begins before it and reaches into it counts for it.
        role: named in errors.

    Raises:
        FatalEndpointError: the reply has no log-probs of the prompt, or the prompt does not end with the answer.
    """
    try:
        every = json.loads(reply)["prompt_logprobs"]
        tokens = [next(iter(token.values())) for token in every if token]
        found: list[float] = []
        text = ""
        while len(text.strip()) < len(answer.strip()):
            token = tokens.pop()
            text = str(token["decoded_token"]) + text
            found.insert(0, float(token["logprob"]))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        found, text, why = [], "", f"{type(error).__name__}: {error}"
    else:
        why = f"The prompt ends with {text[-60:]!r}, not with the answer {answer!r}."
    if not text.strip().endswith(answer.strip()) or not found or not _are_logprobs(found):
        raise _no_logprobs(role, "answer with images", why)
    return found


def answer_logprobs(reply: bytes, start: int, end: int, role: str) -> list[float]:
    """The log-probs of the tokens of an echoed text between two characters.

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
    if found and not _are_logprobs(found):
        why = f"Log-probs are finite numbers up to 0, got {found[:5]}."
    if not found or not _are_logprobs(found):
        raise _no_logprobs(role, "text", why)
    return found


def _are_logprobs(values: Sequence[float]) -> bool:
    """Whether all are logarithms of probabilities, up to rounding."""
    return all(math.isfinite(value) and value <= _ROUNDING for value in values)


def _no_logprobs(role: str, given: str, why: str) -> FatalEndpointError:
    return FatalEndpointError(f"The endpoint of {role} returns no log-probs of a given {given}", why=why, fix=_FIX)
