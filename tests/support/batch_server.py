"""A stand-in for the batch endpoints of OpenAI, added to any app that answers chat requests."""

import asyncio
import json
from collections.abc import Callable, Sequence

import aiohttp
from aiohttp import web


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message}}, status=status)


class BatchServer:
    """``/v1/files`` and ``/v1/batches`` of an app. Requests of a batch are sent to the app itself, without a header of
    the sample index, so that they are answered as single ones that begin at 0.

    Args:
        app: answers requests.
        delay_s: seconds from the submission of a batch to its end.
        line_of: another line in place of the one for a custom id and a body; None: the request is answered; an empty
            text: there is no line.
        answers: how many requests of a batch are answered before it expires; None: all.
        failed: the error with which every batch fails before it is worked on.
        extra_lines: are written before and after those of the requests; a copy of each line with another text too.
        lose_creations: how many replies to the creation of a batch are lost: the connection is closed.
        hold_creations: seconds from the creation of a batch to the reply.
        busy: how many calls get status 503 before others are answered.
        path: where requests go.
    """

    def __init__(
        self,
        app: web.Application,
        *,
        delay_s: float = 0.0,
        line_of: Callable[[str, dict], str | None] = lambda custom_id, body: None,
        answers: int | None = None,
        failed: str = "",
        extra_lines: Sequence[str] = (),
        lose_creations: int = 0,
        hold_creations: float = 0.0,
        busy: int = 0,
        path: str = "/v1/chat/completions",
    ) -> None:
        self.delay_s, self.line_of, self.answers, self.failed = delay_s, line_of, answers, failed
        self.extra_lines, self.lose_creations, self.hold_creations = extra_lines, lose_creations, hold_creations
        self.busy, self.path = busy, path
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict] = {}
        self.created: list[list[dict]] = []
        """The requests of each batch."""
        self.polls, self.polled = 0, asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        app.router.add_post("/v1/files", self._upload)
        app.router.add_get("/v1/files/{id}/content", self._content)
        app.router.add_post("/v1/batches", self._create)
        app.router.add_get("/v1/batches", self._list)
        app.router.add_get("/v1/batches/{id}", self._poll)

    @property
    def bodies(self) -> list[dict]:
        """The bodies of all requests of all batches."""
        return [line["body"] for lines in self.created for line in lines]

    def _is_busy(self) -> bool:
        self.busy -= 1
        return self.busy >= 0

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        if self._is_busy():
            return _error(503, "busy")
        assert form["purpose"] == "batch"
        name = f"file-{len(self.files)}"
        self.files[name] = form["file"].file.read()
        return web.json_response({"id": name, "object": "file", "purpose": "batch"})

    async def _content(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        return web.Response(body=self.files[name]) if name in self.files else _error(404, "No such file")

    async def _create(self, request: web.Request) -> web.Response:
        body = await request.json()
        if self._is_busy():
            return _error(503, "busy")
        assert (body["endpoint"], body["completion_window"]) == (self.path, "24h")
        if body["input_file_id"] not in self.files:
            return _error(400, "No such input file")
        lines = [json.loads(text) for text in self.files[body["input_file_id"]].splitlines()]
        assert len({line["custom_id"] for line in lines}) == len(lines)
        assert all((line["method"], line["url"]) == ("POST", self.path) for line in lines)
        self.created.append(lines)
        batch = {"id": f"batch_{len(self.batches)}", "object": "batch", "status": "validating", **body}
        batch |= {"request_counts": {"total": len(lines), "completed": 0, "failed": 0}}
        self.batches[batch["id"]] = batch
        task = asyncio.create_task(self._work(batch, lines, f"http://{request.host}{self.path}"))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.sleep(self.hold_creations)
        if self.lose_creations > 0:
            self.lose_creations -= 1
            request.transport.abort()
        return web.json_response(batch)

    async def _list(self, request: web.Request) -> web.Response:
        newest = list(reversed(self.batches.values()))
        after = request.query.get("after")
        start = 1 + [batch["id"] for batch in newest].index(after) if after else 0
        page = newest[start : start + 2]  # smaller than asked for, so that there are several
        return web.json_response({"object": "list", "data": page, "has_more": start + 2 < len(newest)})

    async def _poll(self, request: web.Request) -> web.Response:
        self.polls += 1
        self.polled.set()
        if self._is_busy():
            return _error(503, "busy")
        batch = self.batches.get(request.match_info["id"])
        return _error(404, "No batch found") if batch is None else web.json_response(batch)

    async def _work(self, batch: dict, lines: list[dict], url: str) -> None:
        if self.failed:
            batch |= {"status": "failed", "errors": {"data": [{"message": self.failed}]}}
            return
        batch["status"] = "in_progress"
        output, errors = list(self.extra_lines), []
        async with aiohttp.ClientSession() as session:
            for number, line in enumerate(lines):
                await asyncio.sleep(self.delay_s / len(lines))
                replacement = self.line_of(line["custom_id"], line["body"])
                if self.answers is not None and number >= self.answers:
                    error = {"code": "batch_expired", "message": "This request could not be executed in time."}
                    errors.append(json.dumps({"custom_id": line["custom_id"], "response": None, "error": error}))
                elif replacement is not None:
                    output += [replacement] if replacement else []
                else:
                    headers = {"X-Sample-Index": "0"}
                    async with session.post(url, json=line["body"], headers=headers) as reply:
                        response = {"status_code": reply.status, "request_id": "r", "body": await reply.json()}
                    text = json.dumps({"id": "b", "custom_id": line["custom_id"], "response": response, "error": None})
                    (output if response["status_code"] == 200 else errors).append(text)
                    if self.extra_lines:
                        output.append(text.replace('"content": "', '"content": "the second line of '))
                batch["request_counts"]["completed"] += 1
        output += self.extra_lines
        for name, content in (("output_file_id", output), ("error_file_id", errors)):
            if content:
                batch[name] = f"file-{len(self.files)}"
                self.files[batch[name]] = "".join(f"{text}\n" for text in content).encode()
        batch["status"] = "completed" if self.answers is None else "expired"
