"""The order of a peer, and its requests to the proxy of the bench. Only the standard library is used.

The order is a JSON file: ``learn`` and ``use`` (addresses), ``score`` (address), ``model``, ``temperature``,
``max_tokens``, ``seed``, ``concurrency``, ``samples``, ``rollouts``, ``options``, ``system`` (instructions to begin
with), ``state`` (a folder to continue from, if a peer keeps one), and the problems ``train`` and ``test``, each with
``id``, ``text``, ``answer`` and ``messages``. What the script writes is a JSON file too: ``replies`` to each problem of
the test, and ``library``, the size of what was learned.
"""

from __future__ import annotations

import itertools
import json
import sys
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ORDER: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
Problem = dict[str, Any]
REFLECTION_TOKENS = 1024
"""Of a reply that proposes instructions: those of an answer are too few."""
_seeds = itertools.count(1_000_000 * (ORDER["seed"] + 1))


def halves() -> tuple[list[Problem], list[Problem]]:
    """The problems to learn from, and those of the validation."""
    train = ORDER["train"]
    return train[: len(train) // 2], train[len(train) // 2 :]


def chat(phase: str, role: str, messages: Sequence[dict[str, str]]) -> str:
    """The content of a reply."""
    body = {key: ORDER[key] for key in ("model", "temperature", "max_tokens")}
    if role == "reflection":
        body["max_tokens"] = REFLECTION_TOKENS
    reply = _post(f"{ORDER[phase]}/{role}/v1/chat/completions", {**body, "messages": messages, "seed": next(_seeds)})
    return str(reply["choices"][0]["message"]["content"])


def is_right(name: str, reply: str) -> bool:
    """Whether a reply to the problem with an id is right."""
    return bool(_post(ORDER["score"], {"id": name, "reply": reply})["right"])


def feedback(problem: Problem, score: float) -> str:
    """What a reflection model is told of an answer."""
    return "This is right." if score else f"This is wrong. The right answer is {problem['answer']}."


def each(work: Callable[[Problem], Any], problems: Sequence[Problem]) -> list[Any]:
    """What work makes of each problem, in their order; as many at once as there may be requests."""
    with ThreadPoolExecutor(ORDER["concurrency"]) as pool:
        return list(pool.map(work, problems))


def finish(answer: Callable[[Problem], str], library: str) -> None:
    """Answer the problems of the test, and write the result."""
    asked = [problem for problem in ORDER["test"] for _ in range(ORDER["samples"])]
    replies: dict[str, list[str]] = {}
    for problem, reply in zip(asked, each(answer, asked), strict=True):
        replies.setdefault(problem["id"], []).append(reply)
    Path(sys.argv[2]).write_text(json.dumps({"library": library, "replies": replies}), encoding="utf-8")


def _post(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)
