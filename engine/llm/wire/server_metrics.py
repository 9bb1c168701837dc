"""The metrics page of a model server, in the text format of Prometheus, as vLLM writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from engine.llm.wire.transport import first_bytes
from engine.storage.certificates import trusted_certificates

_FETCH_S = 10.0
_LARGEST_PAGE = 4 << 20
_SAMPLE = re.compile(r"^[A-Za-z_]\w*:(\w+)(?:\{.*\})? ([0-9.eE+-]+)", re.MULTILINE)
"""Name without the prefix of the program (``vllm:``), and value. A server with several engines has a line for each."""


@dataclass(frozen=True)
class ServerMetrics:
    """What a server says about its work.

    Args:
        prompt_tokens: tokens of prompts that it has read since it started.
        completion_tokens: tokens that it has generated since it started.
        running: sequences that it works on now; None if the page does not say.
        waiting: sequences that wait for those; None if the page does not say.
    """

    prompt_tokens: float
    completion_tokens: float
    running: int | None = None
    waiting: int | None = None


def read_metrics(page: str) -> ServerMetrics | None:
    """Read a page; None if it does not count generated tokens."""
    sums: dict[str, float] = {}
    for name, value in _SAMPLE.findall(page):
        try:
            sums[name] = sums.get(name, 0.0) + float(value)
        except ValueError:
            continue
    if "generation_tokens_total" not in sums:
        return None
    running, waiting = sums.get("num_requests_running"), sums.get("num_requests_waiting")
    return ServerMetrics(
        sums.get("prompt_tokens_total", 0.0),
        sums["generation_tokens_total"],
        None if running is None else int(running),
        None if waiting is None else int(waiting),
    )


def metrics_url(base_url: str) -> str:
    """The address of the page: beside ``/v1``."""
    parts = urlsplit(base_url)
    return urlunsplit(parts._replace(path=f"{parts.path.removesuffix('/v1')}/metrics", query="", fragment=""))


async def fetch_metrics(base_url: str) -> ServerMetrics | None:
    """Fetch and read the page of a server. No key is sent.

    Returns:
        None if there is no such page.

    Raises:
        OSError: the server did not answer in ten seconds.
    """
    import httpx  # the SDK may use another package, and most servers are never asked for the page

    try:
        async with (
            httpx.AsyncClient(timeout=_FETCH_S, verify=trusted_certificates(base_url)) as client,
            client.stream("GET", metrics_url(base_url)) as reply,
        ):
            if not reply.is_success:
                return None
            page = await first_bytes(reply, _LARGEST_PAGE + 1)
    except httpx.HTTPError as error:
        raise OSError(str(error)) from error
    return read_metrics(page.decode(errors="replace")) if len(page) <= _LARGEST_PAGE else None
