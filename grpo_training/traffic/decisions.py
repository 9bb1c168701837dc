"""Decisions of a model: many states at a time are asked through the project's client, from any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from engine.errors import IncompleteRunError
from engine.llm.client import LLMClient
from engine.llm.journal import ResponseJournal
from engine.records import ChatRequest, Fault, Outcome
from engine.tasks.traffic.reply import read_reply
from grpo_training.evaluate.models import ServedModel


class CallFailedError(IncompleteRunError):
    """A decision could not be asked. It ends the simulation that needed it."""


RequestOf = Callable[[str, str], ChatRequest]
"""Makes the request of a role for a state text."""


class ModelDecisions:
    """Asks one model. Made by :func:`model_decisions`."""

    def __init__(self, client: LLMClient, role: str, request_of: RequestOf, loop: asyncio.AbstractEventLoop) -> None:
        self._client, self._role, self._request_of, self._loop = client, role, request_of, loop

    @property
    def usage(self) -> dict[str, Any]:
        """Requests, tokens and cost so far."""
        counters = self._client.counters
        return {
            "requests": counters.requests_sent,
            "replies_from_journal": counters.journal_hits,
            "prompt_tokens": counters.prompt_tokens,
            "completion_tokens": counters.completion_tokens,
            "cost_usd": counters.cost_usd,
        }

    def decide(self, states: Sequence[str]) -> list[bool | None]:
        """One decision per state, all asked at once: extend, switch, or None where the reply cannot be read.

        Blocking, from any thread but that of the client.

        Raises:
            CallFailedError: a call failed after all retries.
            ScaffoldError: the endpoint refuses every call, or the budget is exhausted.
        """
        return asyncio.run_coroutine_threadsafe(self._ask_all(states), self._loop).result()

    def stop(self) -> None:
        """Cancel what is asked now; every thread that waits for it ends."""

        def cancel() -> None:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()

        self._loop.call_soon_threadsafe(cancel)

    async def _ask_all(self, states: Sequence[str]) -> list[bool | None]:
        return list(await asyncio.gather(*map(self._ask, states)))

    async def _ask(self, state: str) -> bool | None:
        """A decision. A prompt that the endpoint refuses for its content is an invalid reply of the model."""
        (reply,) = await self._client.sample(self._request_of(self._role, state), range(1))
        if reply.outcome is Outcome.INFRA_FAULT:
            fault = reply.fault or Fault(kind="no_reply")
            raise CallFailedError(
                "A decision could not be asked",
                why=f"{fault.kind}: {fault.message}",
                fix="Run the same command again: replies that are in the journal are not asked again.",
            )
        return None if reply.completion is None else read_reply(reply.completion.text).extend


@contextmanager
def model_decisions(served: ServedModel, request_of: RequestOf, journal: ResponseJournal) -> Iterator[ModelDecisions]:
    """A model that is ready to be asked, for the length of the block; its client has a thread of its own."""

    async def open_client() -> LLMClient:
        return LLMClient(served.manager, journal=journal, retry=served.retry, budget=served.budget)

    async def close() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="traffic-decisions", daemon=True)
    thread.start()
    client = asyncio.run_coroutine_threadsafe(open_client(), loop).result()
    try:
        yield ModelDecisions(client, served.role, request_of, loop)
    finally:
        asyncio.run_coroutine_threadsafe(close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
