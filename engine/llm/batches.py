"""Requests in files through the batch API of a provider: half the price, and replies within a day.

A batch is noted in the journal before it is submitted, so that a start after a killed one finds it again.
Source: "Batch API" in the guides of OpenAI.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from engine.errors import FatalEndpointError, first_line
from engine.llm.cancellation import within
from engine.llm.connection import EndpointConnection
from engine.llm.journal import NotedBatch, ResponseJournal
from engine.llm.notices import describe, fatal_error
from engine.llm.requests import format_of
from engine.llm.retry import RetryAction, RetryDecision
from engine.llm.sender import RequestSender
from engine.llm.transport import StatusError
from engine.storage.append_log import opened

ReadT = TypeVar("ReadT")

_MOST_REQUESTS, _MOST_BYTES = 50_000, 200_000_000
"""The limits of a file."""
_QUIET_S = 2.0
"""A batch is submitted when no further request has arrived for so long."""
_FIRST_POLL_S, _LONGEST_POLL_S = 2.0, 60.0
_LOCK_POLL_S = 0.1
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_APIS = ("chat", "responses")
_OK, _NO_SUCH_PATH = 200, (404, 405, 501)

_FAILED = (
    "Remove the cause (a limit on queued tokens: lower --max-problems), then run the same command again: it submits "
    "these requests in a new batch. Without --batch they are sent one by one."
)


class _State(BaseModel):
    """The parts of a batch object that are used, and of a file object its name."""

    id: str
    status: str = ""
    input_file_id: str | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    request_counts: dict[str, int] | None = None
    errors: Any = None


class _Page(BaseModel):
    data: list[_State]
    has_more: bool = False


_Lines = dict[str, tuple[int, Any]]
"""Custom id -> one line of a file of replies: the HTTP status of a request, and the body."""
_Batches = dict[str, asyncio.Task[_Lines]]


class _Waiting(NamedTuple):
    """A request that waits to be in a batch: its custom id, the key of its first sample, its line of the file."""

    custom_id: str
    key: str
    line: bytes


class BatchCollector:
    """Collects requests and sends them as batches. For one event loop.

    Args:
        sender: sends the requests; its clock, retries and reports are used.
        journal: keeps the notes of batches.
    """

    def __init__(self, sender: RequestSender, journal: ResponseJournal) -> None:
        self._sender, self._journal = sender, journal
        self._waiting: dict[EndpointConnection, tuple[list[_Waiting], asyncio.Task[_Batches]]] = {}
        self._arrived_at = 0.0
        self._batches: _Batches = {}
        """The batches that this process waits for, or whose replies it has, by their files of requests."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._urls: set[str] = set()

    async def reply(self, connection: EndpointConnection, keys: Sequence[str], body: dict[str, Any]) -> bytes | None:
        """The body of the reply to a request, which is sent in a batch or is in an unfinished one.

        Args:
            connection: where it goes.
            keys: the journal keys of its samples.
            body: its body, as JSON values.

        Returns:
            the body; None if the batch ended without an answer to this request, or another process has stored it.

        Raises:
            StatusError: this request of the batch was refused, or failed.
            FatalEndpointError: there is no batch API, or it failed.
            JournalError: the batch cannot be noted.
        """
        if connection.endpoint.api not in _APIS:
            refused = RetryDecision(RetryAction.STOP, "no_batches", "its API has batches of another kind")
            raise self._refused(connection, None, refused)
        custom_id = keys[0] if len(keys) == 1 else hashlib.sha256("\n".join(keys).encode()).hexdigest()
        sent = {"custom_id": custom_id, "method": "POST", "url": _path(connection), "body": body}
        self._arrived_at = self._sender.clock()
        if connection not in self._waiting:
            self._waiting[connection] = [], self._start(self._collect(connection))
        waiting, collecting = self._waiting[connection]
        waiting.append(_Waiting(custom_id, keys[0], json.dumps(sent).encode() + b"\n"))
        batch = (await asyncio.shield(collecting)).get(custom_id)
        if batch is None:
            return None
        lines = await asyncio.shield(batch)
        if custom_id not in lines:
            return None
        status, answer = lines.pop(custom_id)  # so that the next attempt is not answered by it
        if status != _OK:
            raise StatusError(status, {}, answer)
        return json.dumps(answer).encode()

    async def close(self) -> None:
        """Stop waiting. Submitted batches stay at the provider, and are reported."""
        was_waiting = [task for task in self._tasks if not task.done()]
        for task in was_waiting:
            task.cancel()
        await asyncio.gather(*was_waiting, return_exceptions=True)
        unfinished = [batch for url in self._urls for batch in self._journal.noted_batches(url)]
        for batch in unfinished if was_waiting else ():
            if batch.batch_id is None or batch.file_id in self._batches:
                self._sender.notices.tell(
                    f"the batch of {len(batch.requests)} requests ({batch.batch_id or batch.file_id}) stays at "
                    f"{batch.base_url}, which works on it and charges for it; the same command takes its replies"
                )

    def _start(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Marked as retrieved: those who wait for it may have been cancelled.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _collect(self, connection: EndpointConnection) -> _Batches:
        """Wait until no further request arrives, then submit those that are in no batch.

        Returns:
            custom id -> its batch, without those whose replies are in the journal.
        """
        while (wait_s := self._arrived_at + _QUIET_S - self._sender.clock()) > 0:
            await self._sender.sleep(wait_s)
        waiting, _ = self._waiting.pop(connection)
        url, batches = connection.endpoint.shown_url, _Batches()
        self._urls.add(url)
        async with self._locked():
            for noted in self._journal.noted_batches(url):
                if inside := [entry.custom_id for entry in waiting if self._is_open(noted, entry.custom_id)]:
                    batches |= dict.fromkeys(inside, await self._begun(connection, noted))
            new = [entry for entry in waiting if entry.custom_id not in batches]
            stored = self._journal.get_many([entry.key for entry in new])  # after the notes, which are removed after it
            for file in _files([entry for entry in new if entry.key not in stored]):
                noted = NotedBatch(url, "", {entry.custom_id: entry.key for entry in file})
                noted = replace(noted, file_id=await self._call(connection, None, _upload, file))
                self._journal.note_batch(noted)
                batches |= dict.fromkeys(noted.requests, await self._begun(connection, noted))
        return batches

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        """Of several processes with one journal one at a time submits, so that no request is in two batches."""
        path = self._journal.path
        with opened(path.with_name(f"{path.name}.batches.lock"), os.O_RDWR | os.O_CREAT) as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await self._sender.sleep(_LOCK_POLL_S)
            yield

    def _is_open(self, noted: NotedBatch, custom_id: str) -> bool:
        """Whether a batch may still answer a request: one that it has answered already is another attempt."""
        task = self._batches.get(noted.file_id)
        return custom_id in noted.requests and (task is None or not task.done() or custom_id in task.result())

    async def _begun(self, connection: EndpointConnection, noted: NotedBatch) -> asyncio.Task[_Lines]:
        """What waits for the lines of a batch, which is submitted if it was not."""
        if noted.file_id not in self._batches:
            how = "found again" if noted.batch_id else "submitted"
            if noted.batch_id is None:
                noted = replace(noted, batch_id=await self._call(connection, noted, _submit, noted.file_id))
                self._journal.note_batch(noted)
            self._sender.notices.tell(f"batch of {len(noted.requests)} requests: {how} ({noted.batch_id})")
            self._batches[noted.file_id] = self._start(self._lines(connection, noted))
        return self._batches[noted.file_id]

    async def _lines(self, connection: EndpointConnection, noted: NotedBatch) -> _Lines:
        """Wait for the end of a batch; what its files say of its requests."""
        count, began, wait_s, reported = len(noted.requests), self._sender.clock(), _FIRST_POLL_S, 0
        path = f"batches/{quote(noted.batch_id or '', safe='')}"
        while (state := await self._call(connection, noted, _state, path)).status not in _ENDED:
            done = sum((state.request_counts or {}).get(name, 0) for name in ("completed", "failed"))
            if done > reported:
                minutes = (self._sender.clock() - began) / 60
                self._sender.notices.tell(f"batch of {count} requests: {done} done ({minutes:.0f} min)")
                reported = done
            await self._sender.sleep(wait_s)
            wait_s = min(_LONGEST_POLL_S, 1.5 * wait_s)
        connection.reached = True
        if state.status == "failed":  # none of its requests was worked on
            raise self._refused(connection, noted, RetryDecision(RetryAction.STOP, "batch", json.dumps(state.errors)))

        lines: _Lines = {}
        for file_id in filter(None, (state.output_file_id, state.error_file_id)):
            lines = await self._call(connection, noted, _download, file_id, noted.requests) | lines
        answered = {name: key for name, key in noted.requests.items() if name in lines and lines[name][0] == _OK}
        if len(answered) < count:
            self._journal.note_batch(replace(noted, requests=answered))  # the others are asked for in another way
        self._sender.notices.tell(f"batch of {count} requests: {state.status}, {len(answered)} answered")
        return lines

    async def _call(
        self,
        connection: EndpointConnection,
        noted: NotedBatch | None,
        work: Callable[..., Coroutine[Any, Any, ReadT]],
        *arguments: object,
    ) -> ReadT:
        """Use the batch API until it answers.

        Args:
            connection: where it is.
            noted: the batch that it is about, if there is one. It is forgotten if the provider does not have it.
            work: what uses it, given the connection and the arguments; raises as :meth:`Transport.call`, or
                ``ValueError`` for a reply of another form.
            arguments: of ``work``.

        Raises:
            FatalEndpointError: it was refused, or has failed for the time of retries.
        """
        endpoint, failures, began = connection.endpoint, 0, self._sender.clock()
        while True:
            try:
                return await within(endpoint.timeout_s, work(connection, *arguments), lambda: None)
            except Exception as error:
                status = error.status if isinstance(error, StatusError) else 0
                decision = connection.classify(error, frozenset(), None)
                if decision is None and isinstance(error, ValueError):
                    decision = RetryDecision(RetryAction.RETRY, "bad_reply", first_line(error))
                if decision is None:
                    raise
            failures += 1
            wait_s = self._sender.retry.wait_s(decision, failures, self._sender.rng)
            lost = noted if status in (400, *_NO_SUCH_PATH) else None
            if noted is not None and noted.batch_id is not None:  # its replies may be paid for
                lost = noted if status == 404 else None
                decision = replace(decision, action=RetryAction.RETRY) if lost else decision
            elif status in _NO_SUCH_PATH:
                decision = replace(decision, action=RetryAction.STOP, code="no_batches")
            if not decision.retry or self._sender.clock() - began + wait_s > self._sender.retry.total_s:
                raise self._refused(connection, lost, decision)
            self._sender.notices.will_retry(endpoint, decision, failures, connection.answers > 0)
            await self._sender.sleep(wait_s)

    def _refused(
        self, connection: EndpointConnection, lost: NotedBatch | None, decision: RetryDecision
    ) -> FatalEndpointError:
        """The error of a call of the batch API; ``lost``: a batch that the provider has not, or has not worked on."""
        endpoint = connection.endpoint
        error = fatal_error(endpoint, decision, self._sender.config_path)
        if decision.retry:
            what, why = f"the batch API at {endpoint.shown_url} fails", describe(endpoint, decision, answered=True)
            fix = "Run the same command again: it finds submitted batches."
            error = FatalEndpointError(f"{endpoint.role}: {what}", why=why, fix=fix)
        if lost is not None and lost.batch_id is not None:
            what = f"{endpoint.role}: the batch {lost.batch_id} of {len(lost.requests)} requests has failed"
            error = FatalEndpointError(what, why=error.why, fix=_FAILED)
        if lost is not None:
            self._journal.note_batch(replace(lost, requests={}))
        return self._sender.cancel_scope.cancel(error)


def _path(connection: EndpointConnection) -> str:
    """Where a batch sends its requests, as its provider names it."""
    return f"/v1{format_of(connection.endpoint).path}"


def _files(waiting: Sequence[_Waiting]) -> Iterator[list[_Waiting]]:
    """Split requests into files within the limits."""
    file: list[_Waiting] = []
    size = 0
    for request in waiting:
        if file and (len(file) == _MOST_REQUESTS or size + len(request.line) > _MOST_BYTES):
            yield file
            file, size = [], 0
        file.append(request)
        size += len(request.line)
    if file:
        yield file


async def _upload(connection: EndpointConnection, file: Sequence[_Waiting]) -> str:
    """Upload a file of requests; the provider's name of it."""
    content = b"".join(request.line for request in file)
    return _State.model_validate_json(await connection.transport.call("files", {"purpose": "batch"}, content)).id


async def _submit(connection: EndpointConnection, file_id: str) -> str:
    """Submit a batch; its name. One that an attempt without a reply, or a killed start, has submitted is found."""
    after = ""
    while True:
        page = _Page.model_validate_json(await connection.transport.call(f"batches?limit=100{after}"))
        for state in page.data:
            if state.input_file_id == file_id:
                return state.id
        if not page.has_more or not page.data:
            break
        after = f"&after={quote(page.data[-1].id, safe='')}"
    body = {"input_file_id": file_id, "endpoint": _path(connection), "completion_window": "24h"}
    return _State.model_validate_json(await connection.transport.call("batches", body)).id


async def _state(connection: EndpointConnection, path: str) -> _State:
    return _State.model_validate_json(await connection.transport.call(path))


async def _download(connection: EndpointConnection, file_id: str, wanted: Collection[str]) -> _Lines:
    """The lines of a file of replies."""
    content = await connection.transport.call(f"files/{quote(file_id, safe='')}/content")
    return await asyncio.to_thread(_read_lines, content, wanted)


def _read_lines(content: bytes, wanted: Collection[str]) -> _Lines:
    """The first line of each request. Lines that cannot be read, or are of no request, are left out."""
    lines: _Lines = {}
    for text in content.splitlines():
        try:
            line = json.loads(text)
            custom_id, response = line["custom_id"], line["response"]
            status, body = response["status_code"], response["body"]
        except (ValueError, TypeError, KeyError, RecursionError):  # a request that has expired has no response
            continue
        if isinstance(custom_id, str) and isinstance(status, int) and custom_id in wanted:
            lines.setdefault(custom_id, (status, body))
    return lines
