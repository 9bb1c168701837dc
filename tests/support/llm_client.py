"""Shared by the tests of the model client: requests, an API configuration and a client with its server."""

import asyncio
import socket
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from engine.api_manager import ApiManager
from engine.llm.client import LLMClient
from engine.llm.retry import RetryPolicy
from engine.records import ChatRequest, Message
from tests.support.fault_server import serve

SECRET = "sk-test-0123456789abcdef"
SHORT_WAITS = RetryPolicy(first_wait_s=0.01, max_wait_s=0.05)


def answer(body, index):
    """The server's reply: the last message and the sample index."""
    return f"{body['messages'][-1]['content']}/{index}"


def manager(url, **fields):
    """Two roles, ``g`` and ``twin``, with the same endpoint."""
    entry = {"api_key": SECRET, "base_url": url, "model": "m", "timeout_s": 5.0, **fields}
    return ApiManager(Path("api_config.json"), {"g": entry, "twin": entry})


def ask(content, role="g", **fields):
    """A request with one message."""
    return ChatRequest(role=role, messages=(Message(role="user", content=content),), **fields)


def texts(replies):
    """The texts of replies; None for a reply without a completion."""
    return [reply.completion and reply.completion.text for reply in replies]


@contextmanager
def refusing_url():
    """An address that refuses connections: the port is bound, and nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


@asynccontextmanager
async def client_of(app, journal=None, endpoint=None, **options):
    """A client of an app that is served on loopback."""
    async with serve(app) as url:
        options = {"retry": SHORT_WAITS, **options}
        async with LLMClient(manager(url, **(endpoint or {})), journal=journal, **options) as client:
            yield client


class VirtualClock:
    """Sleeping takes no time but advances the clock."""

    def __init__(self):
        self.now = 1_700_000_000.0
        self.slept = []

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)
