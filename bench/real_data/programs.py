"""Runs the program of a data set: its requests go to the proxy, and are counted as those of any arm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import aiohttp

from engine.records import ChatRequest, Completion, Fault, Message, Outcome, Reply, Sampling
from engine.tasks.program.client import ProgramClient

Function = Callable[..., Any]


class ProgramError(Exception):
    """A run of a program whose request was not answered."""


async def run_program(function: Function, session: aiohttp.ClientSession, url: str, asked: dict[str, Any]) -> str:
    """What a program returns, in the form that its task reads.

    Args:
        function: the program.
        session: sends its requests.
        url: of chat completions, to which it sends them.
        asked: the body of a chat request, whose message is the input of the program.

    Raises:
        ProgramError: one of its requests was not answered.
    """
    sampling = Sampling(temperature=asked["temperature"], max_tokens=asked["max_tokens"], seed=asked["seed"])
    messages = tuple(Message.model_validate(message) for message in asked["messages"])
    client = ProgramClient(_Sampler(session, url, asked["model"]), function)
    [reply] = await client.sample(ChatRequest(role="generator", messages=messages, sampling=sampling), [0])
    if reply.completion is None:
        raise ProgramError(reply.fault and reply.fault.message)
    return reply.completion.text


class _Sampler:
    def __init__(self, session: aiohttp.ClientSession, url: str, model: str) -> None:
        self._session, self._url, self._model = session, url, model

    async def sample(self, request: ChatRequest, sample_indices: Sequence[int]) -> list[Reply]:
        return [await self._reply(request, index) for index in sample_indices]

    async def _reply(self, request: ChatRequest, index: int) -> Reply:
        body = {**(request.body or {}), "model": self._model, "seed": (request.sampling.seed or 0) + index}
        async with self._session.post(self._url, json=body) as response:
            if response.status != 200:
                fault = Fault(kind="refused", message=(await response.text())[:300])
                return Reply(sample_index=index, outcome=Outcome.INFRA_FAULT, fault=fault)
            [choice] = (await response.json())["choices"]
        message = choice["message"]
        completion = Completion(text=message["content"] or "", tool_calls=message.get("tool_calls") or None)
        return Reply(sample_index=index, outcome=Outcome.OK, completion=completion)
