"""Runs a program: its requests go through the client of the run, with its journal, its budget and its limits."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Protocol

from engine.errors import InputError, ScaffoldError
from engine.llm.transport import HTTP
from engine.reading.model_text import without_control_characters
from engine.records import ChatRequest, Completion, Fault, Message, Outcome, Reply, Sampling, Usage
from engine.tasks.program.address import Address
from engine.tasks.program.declaration import SHOWN_CALLS, SHOWN_PROMPT, SHOWN_REPLY, Call, Run
from engine.tasks.program.wire import api_of, chat_body, refused, response

_AGAIN = 1_000_000
"""Difference of sample indices between equal requests of one run, so that each is a sample of its own."""
_THREADS = 64
"""Programs that are no coroutine functions and run at once."""
_OWN_HTTP: dict[str, Any] = {"trust_env": False, "verify": False, "timeout": None}
"""The address is on this machine, without a proxy and without TLS; the client of the run has its own time limits."""


class SamplingClient(Protocol):
    """Draws samples; see :class:`engine.llm.client.LLMClient`."""

    async def sample(self, request: ChatRequest, sample_indices: Sequence[int]) -> list[Reply]:
        """One reply for each sample index, in their order."""
        ...


class ProgramClient:
    """In place of each sample of a prompt, one run of a program, of which the prompt is the input.

    Args:
        client: answers the requests of the program.
        function: the program.
    """

    def __init__(self, client: SamplingClient, function: Callable[..., Any]) -> None:
        self._client, self._function, self._address = client, function, Address()

    async def sample(self, request: ChatRequest, sample_indices: Sequence[int]) -> list[Reply]:
        """One reply for each index: what the program has returned, as JSON.

        A program of which a request has failed has no result, whatever it returns: nothing is scored as wrong. One that
        raises an exception after a reply of the model has a score of 0, as replies are what programs stumble over; one
        that raises before is broken, and its group stays open.

        Raises:
            ScaffoldError: as the client.
        """
        try:
            content = json.loads(request.messages[-1].content)
            row, prompts = content["row"], content["prompts"]
        except (ValueError, TypeError, KeyError):
            raise InputError(
                "A program has no prompt of its own", why="--prompt replaces the input of the program."
            ) from None

        async def run(index: int) -> Reply:
            program_run = _Run(self._client, request, index, prompts)
            async with self._address.of(program_run.answer) as url:
                return await program_run.of(self._function, row, url)

        return list(await asyncio.gather(*map(run, sample_indices)))


class _Run:
    """One run of a program."""

    def __init__(self, client: SamplingClient, request: ChatRequest, index: int, prompts: Mapping[str, str]) -> None:
        self._client, self._request, self._index, self._prompts = client, request, index, prompts
        self._asked: Counter[str] = Counter()
        self._calls: list[Call] = []
        self._used: list[Usage] = []
        self._model = ""
        self._fault: Fault | None = None
        self._refusal: Fault | None = None
        self._error: ScaffoldError | None = None

    async def of(self, function: Callable[..., Any], row: Mapping[str, Any], url: str) -> Reply:
        import openai

        asked_at: dict[str, Any] = {"base_url": url, "api_key": "-", "max_retries": 0}
        returned: Any = None
        failed = ""
        try:
            if inspect.iscoroutinefunction(function):
                async with openai.AsyncOpenAI(http_client=HTTP.AsyncClient(**_OWN_HTTP), **asked_at) as client:
                    returned = await function(row, client, self._prompts)
            else:
                with openai.OpenAI(http_client=HTTP.Client(**_OWN_HTTP), **asked_at) as client:
                    loop = asyncio.get_running_loop()
                    returned = await loop.run_in_executor(_threads(), function, row, client, self._prompts)
        except Exception as error:  # noqa: BLE001 - the program is the user's own code
            failed = f"the program raised {type(error).__name__}: {error}"[:500]
        if self._error is not None:
            raise self._error
        try:
            run = Run.of(returned, self._calls)
        except (TypeError, ValueError) as error:
            failed = failed or str(error)
        if self._fault is not None:
            return Reply(sample_index=self._index, outcome=Outcome.INFRA_FAULT, fault=self._fault)
        if failed and self._refusal is not None:  # the provider of the model refuses the problem
            return Reply(sample_index=self._index, outcome=Outcome.MODEL_FAULT, fault=self._refusal)
        if failed and not self._calls:
            fault = Fault(kind="program_error", message=failed)
            return Reply(sample_index=self._index, outcome=Outcome.INFRA_FAULT, fault=fault)
        if failed:  # by what the model has said
            run = Run(None, 0.0, failed, tuple(self._calls))
        costs = [used.cost_usd for used in self._used]
        known = [cost for cost in costs if cost is not None]
        usage = Usage(
            prompt_tokens=sum(used.prompt_tokens for used in self._used),
            completion_tokens=sum(used.completion_tokens for used in self._used),
            cached_tokens=sum(used.cached_tokens for used in self._used),
            reasoning_tokens=sum(used.reasoning_tokens for used in self._used),
            attempts=max((used.attempts for used in self._used), default=1),
            cost_usd=sum(known) if len(known) == len(costs) else None,
        )
        completion = Completion(text=run.text(), finish_reason="stop", usage=usage, model=self._model)
        return Reply(sample_index=self._index, outcome=Outcome.OK, completion=completion)

    async def answer(self, path: str, body: dict[str, Any]) -> Any:
        """Answer one request of the program, as a server would."""
        api = api_of(path)
        if api is None:
            return refused("A program can ask for chat.completions and responses only.")
        try:
            body = chat_body(api, body)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            return refused(str(error) if isinstance(error, ValueError) else f"The request cannot be read: {error!r}")
        count, streams = body.pop("n", None) or 1, bool(body.pop("stream", False))
        body.pop("stream_options", None)
        sampling = self._request.sampling
        body = {"temperature": sampling.temperature, "top_p": sampling.top_p, "max_tokens": sampling.max_tokens} | body
        if "max_completion_tokens" in body:
            body["max_tokens"] = body.pop("max_completion_tokens")
        body = {name: value for name, value in body.items() if value is not None and name not in ("model", "seed")}
        request = ChatRequest(
            role=self._request.role,
            messages=tuple(_message(message) for message in body["messages"]),
            sampling=Sampling(
                temperature=body.get("temperature"),
                top_p=body.get("top_p"),
                max_tokens=body.get("max_tokens"),
                seed=sampling.seed,
            ),
            purpose=self._request.purpose,
            body=body,
        )
        key = json.dumps(body, sort_keys=True)
        first = self._index + _AGAIN * self._asked[key]
        self._asked[key] += count
        indices = [first + _AGAIN * number for number in range(count)]
        try:
            replies = await self._client.sample(request, indices)
        except ScaffoldError as error:
            self._error = error
            raise
        completions: list[Completion] = []
        for reply in replies:
            if reply.completion is None:
                fault = reply.fault or Fault(kind="unknown")
                if reply.outcome is Outcome.INFRA_FAULT:
                    self._fault = fault
                else:
                    self._refusal = fault
                return refused(fault.message or fault.kind)
            completions.append(reply.completion)
        self._used += [completion.usage for completion in completions]
        self._model = completions[0].model
        if len(self._calls) < SHOWN_CALLS:
            asked = without_control_characters(self._without_learned(request.messages[-1].content))
            self._calls.append(Call(asked[-SHOWN_PROMPT:], _said(completions[0])[:SHOWN_REPLY]))
        return response(api, completions, streams=streams)

    def _without_learned(self, text: str) -> str:
        """What was asked, with the names of prompts in the place of their texts, which an analyst would copy."""
        for name, learned in self._prompts.items():
            if learned:
                text = text.replace(learned, f'[what was learned for the step "{name}"]')
        return text


def _message(message: Any) -> Message:
    """A message as the size of the request is estimated, and as it is shown."""
    values = message if isinstance(message, Mapping) else {}
    role: Literal["system", "user", "assistant"] = "user"
    if values.get("role") in ("system", "assistant"):
        role = values["role"]
    content = values.get("content")
    parts = content if isinstance(content, list) else [{"text": content}] if content else []
    others = {name: values[name] for name in ("tool_calls", "tool_call_id") if name in values}
    texts = [part.get("text") or json.dumps(part, ensure_ascii=False) for part in parts if isinstance(part, Mapping)]
    return Message(role=role, content="\n".join(texts) + (json.dumps(others, ensure_ascii=False) if others else ""))


def _said(completion: Completion) -> str:
    calls = json.dumps(completion.tool_calls, ensure_ascii=False) if completion.tool_calls else ""
    return without_control_characters(completion.text + calls)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    """Threads of their own: programs wait in them for replies, for which other threads are needed."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="program")
