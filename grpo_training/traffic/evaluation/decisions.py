"""Decisions of a model: many states at a time are asked through the project's client, from any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agents.generator import generator_messages
from engine.errors import IncompleteRunError
from engine.experience.choice import LearnedExperiences
from engine.llm.client import LLMClient
from engine.llm.journal import ResponseJournal
from engine.records import ChatRequest, Fault, Outcome, Problem, Reply, Sampling
from engine.tasks.traffic.reply import read_reply
from engine.tasks.traffic.task import TASK
from grpo_training.evaluate.models import ServedModel

_STATES_IN_FLIGHT = 256
"""More than local servers and most endpoints process at once; the client's own limits apply in addition."""


class CallFailedError(IncompleteRunError):
    """A decision could not be asked. It ends the simulation that needed it."""


@dataclass(frozen=True)
class Prompting:
    """How a state is asked.

    Args:
        sampling: sampling parameters.
        experiences: of a library, which chooses those in the prompt; None: none.
        style: prompt style.
    """

    sampling: Sampling
    experiences: LearnedExperiences | None = None
    style: str = "full"


class ModelDecisions:
    """Asks one model. Made by :func:`model_decisions`."""

    def __init__(self, client: LLMClient, role: str, prompting: Prompting, loop: asyncio.AbstractEventLoop) -> None:
        self._client, self._role, self._prompting, self._loop = client, role, prompting, loop
        self._slots = asyncio.Semaphore(_STATES_IN_FLIGHT)
        self._guard = threading.Lock()
        self._pending: set[Future[Any]] = set()
        self._stopped = False

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
        asking: Future[list[bool | None]]
        with self._guard:
            if self._stopped:
                raise CancelledError
            asking = asyncio.run_coroutine_threadsafe(self._ask_all(states), self._loop)
            self._pending.add(asking)
        try:
            return asking.result()
        finally:
            with self._guard:
                self._pending.discard(asking)

    def stop(self) -> None:
        """Cancel what is asked now; every thread that waits for it ends, and nothing new is asked."""
        with self._guard:
            self._stopped = True
            pending = list(self._pending)
        for asking in pending:
            asking.cancel()

    async def _ask_all(self, states: Sequence[str]) -> list[bool | None]:
        tasks = [asyncio.ensure_future(self._ask(state)) for state in states]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    async def _ask(self, state: str) -> bool | None:
        problem = Problem(id="", text=state, answer="", task=TASK.name)
        experiences = self._prompting.experiences
        request = ChatRequest(
            role=self._role,
            messages=generator_messages(
                TASK, problem, experiences.of(problem) if experiences else (), self._prompting.style
            ),
            sampling=self._prompting.sampling,
            json_schema=TASK.reply_schema,
            purpose="evaluation",
        )
        async with self._slots:
            (reply,) = await self._client.sample(request, range(1))
        return _decision(reply)


def _decision(reply: Reply) -> bool | None:
    """A prompt that the endpoint refuses for its content is an invalid reply of the model."""
    if reply.outcome is Outcome.INFRA_FAULT:
        fault = reply.fault or Fault(kind="no_reply")
        raise CallFailedError(
            "A decision could not be asked",
            why=f"{fault.kind}: {fault.message}",
            fix="Run the same command again: replies that are in the journal are not asked again.",
        )
    return None if reply.completion is None else read_reply(reply.completion.text).extend


@contextmanager
def model_decisions(served: ServedModel, prompting: Prompting, journal: ResponseJournal) -> Iterator[ModelDecisions]:
    """A model that is ready to be asked, for the length of the block; its client has a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="traffic-decisions", daemon=True)
    thread.start()

    async def open_client() -> ModelDecisions:
        client = LLMClient(
            served.manager, journal=journal, retry=served.retry, budget=served.budget
        )
        return ModelDecisions(client, served.role, prompting, loop)

    async def close() -> None:
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await decisions._client.close()

    decisions = asyncio.run_coroutine_threadsafe(open_client(), loop).result()
    try:
        yield decisions
    finally:
        decisions.stop()
        asyncio.run_coroutine_threadsafe(close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
