"""A model server that works on a few sequences at a time, and counts its tokens on a metrics page as vLLM does."""

import asyncio

from aiohttp import web

from tests.support.fault_server import _completion

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="m"}} {running:.1f}
vllm:num_requests_waiting{{engine="0",model_name="m"}} {waiting:.1f}
vllm:prompt_tokens_total{{engine="0",model_name="m"}} 11.0
vllm:prompt_tokens_created{{engine="0",model_name="m"}} 1.7e+09
vllm:generation_tokens_total{{engine="0",model_name="m"}} {tokens:e}
"""


class SlowServer:
    """Answers each request after ``seconds`` of work, ``sequences`` requests at a time.

    Args:
        seconds: time of a request.
        sequences: requests that are worked on at a time.
        has_page: whether there is a metrics page.
        is_stuck: whether it never answers, and its counters stand still.
    """

    def __init__(self, seconds, sequences=1, *, has_page=True, is_stuck=False):
        self.seconds, self.is_stuck = seconds, is_stuck
        self.running = self.waiting = self.most_waiting = self.looks = 0
        self.tokens = 0.0
        self._slots = asyncio.Semaphore(sequences)
        self.app = web.Application()
        self.app.router.add_post("/v1/chat/completions", self._chat)
        if has_page:
            self.app.router.add_get("/metrics", self._metrics)

    async def _chat(self, request):
        body = await request.json()
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        async with self._slots:
            self.waiting -= 1
            self.running += 1
            try:
                for _ in range(10):
                    await asyncio.sleep(self.seconds / 10)
                    self.tokens += 0 if self.is_stuck else 2
                if self.is_stuck:
                    await asyncio.sleep(3600)
            finally:
                self.running -= 1
        text = body["messages"][-1]["content"]
        return web.json_response(_completion(body["model"], [(text, "stop")], 11, 20))

    async def _metrics(self, request):
        self.looks += 1
        assert "Authorization" not in request.headers
        return web.Response(text=PAGE.format(running=self.running, waiting=self.waiting, tokens=self.tokens))
