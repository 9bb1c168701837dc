"""A world with planted experiences, behind the chat API.

A world has families of problems, and two experiences for each family that help by 20 to 40 points. After a group whose
answers differ, the analyst of the world proposes one experience: with probability q one of these two; else one that
harms (30 %; a fifth of these everywhere), one that only helps with its own problem, or one without effect. A prompt
loses 0.2 points for each experience, and what is written for another family now and then harms. The accuracy on new
problems is computed, not sampled: the world knows the chance of a right answer for each prompt.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import re
import statistics
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest import mock

from aiohttp import web

from engine.llm.transport import Transport

CODE = re.compile(r"\bx[0-9a-f]{7}\b")
"""An experience is known by a word of its text."""
_ID, _WRONG = re.compile(r"\bcase (\d+)\b"), re.compile(r"\bcase (\d+) was answered wrongly\b")
_FAMILY_WORDS, _COMMON_WORDS, _COMMON_IN_A_TEXT = 12, 140, 18
_NEW = 600
FIRST_NEW = 10**6
"""Number of the first problem that nothing is learned from."""

Kind = Literal["helps", "nothing", "harms"]


@dataclass
class Planted:
    """The effect of an experience: by family, on its own problem, and the insight that it holds."""

    effects: list[float]
    own_problem: int = -1
    own_bonus: float = 0.0
    insight: tuple[int, int] | None = None
    kind: Kind = "nothing"


@dataclass
class World:
    """A planted world.

    Args:
        seed: two worlds with one seed are equal.
        families: number of families.
        q: probability that a proposal helps.
        family_words: words of a problem that only its family has; None: as many as make the experiences of the right
            family about 2.5 standard deviations more similar than others.
        planted: the experiences by the word that they are known by.
        tokens: words of all prompts and replies.
        calls: replies of the analyst.
    """

    seed: int
    families: int
    q: float
    family_words: int | None = None
    planted: dict[str, Planted] = field(default_factory=dict)
    tokens: int = 0
    calls: int = 0

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        self._asked: Counter[int] = Counter()
        self.base = [rng.uniform(0.3, 0.5) for _ in range(self.families)]
        self.gains = [[rng.uniform(0.2, 0.4) for _ in range(2)] for _ in range(self.families)]
        if self.family_words is None:
            self.family_words = 4 if self.families > 10 else 6

    def text(self, number: int) -> str:
        """The text of problem ``number``; its family is the number modulo the families."""
        rng, family = random.Random(f"{self.seed}:{number}"), number % self.families
        of_family = [f"f{family}w{word}" for word in rng.sample(range(_FAMILY_WORDS), self.family_words or 0)]
        words = of_family + [f"c{word}" for word in rng.sample(range(_COMMON_WORDS), _COMMON_IN_A_TEXT)]
        rng.shuffle(words)
        return f"In case {number}: {' '.join(words)}. How many?"

    def chance(self, number: int, codes: Sequence[str]) -> float:
        """The probability of a right answer to a problem with these experiences in the prompt."""
        family = number % self.families
        level = random.Random(f"{self.seed}:level:{number}").gauss(0, 0.25)
        chance = self.base[family] + level - 0.002 * len(codes)
        insights: dict[int, float] = {}
        for code in codes:
            planted = self.planted[code]
            chance += planted.effects[family] + (planted.own_bonus if planted.own_problem == number else 0.0)
            if planted.insight is not None and planted.insight[0] == family:
                insights[planted.insight[1]] = self.gains[family][planted.insight[1]]
        return min(0.98, max(0.02, chance + sum(insights.values())))

    def propose(self, number: int, shown: Sequence[str], key: object) -> str:
        """What the analyst proposes after a group of problem ``number``; the content of an experience.

        Args:
            number: of the problem.
            shown: the experiences that the analyst knows of.
            key: equal keys give equal proposals.
        """
        self.calls += 1
        code = "x" + hashlib.sha256(f"{self.seed}:{number}:{key}".encode()).hexdigest()[:7]
        rng, family = random.Random(code), number % self.families
        planted = Planted([0.0] * self.families, number)
        if rng.random() < self.q:
            known = {self.planted[other].insight for other in shown}
            missing = [n for n in range(2) if (family, n) not in known]
            planted.insight = family, rng.choice(missing if missing and rng.random() < 0.7 else [0, 1])
            planted.kind = "helps"
        elif rng.random() < 0.3:
            harm, planted.kind = -rng.uniform(0.05, 0.15), "harms"
            if rng.random() < 0.2:
                planted.effects = [harm] * self.families
            else:
                planted.effects[family] = harm
        elif rng.random() < 0.5:
            planted.own_bonus = 0.3
        for other in range(self.families):
            if other != family and rng.random() < 0.02:
                planted.effects[other] -= rng.uniform(0.03, 0.08)
        self.planted[code] = planted
        return f"When {' '.join(f'{code[1:]}{n}' for n in range(4))} occurs, do {code}."

    def codes(self, text: str) -> list[str]:
        """The experiences in a text."""
        return [code for code in dict.fromkeys(CODE.findall(text)) if code in self.planted]

    def is_right(self, number: int, codes: Sequence[str], key: object) -> bool:
        """Whether an answer is right; equal keys give equal answers."""
        digest = hashlib.sha256(f"{self.seed}:{number}:{key}".encode()).digest()
        return int.from_bytes(digest[:8]) / 2**64 < self.chance(number, codes)

    def reply(self, body: dict[str, Any]) -> list[str]:
        """The contents of the reply to a chat request."""
        text = " ".join(message["content"] for message in body["messages"])
        codes = self.codes(text)
        if body["model"] == "reflector":
            contents = [self._reflected(text, codes)]
        elif body["model"] == "analyst":
            number = int(_ID.findall(text)[0])  # the problem itself; others with the same mistake follow it
            self._asked[number] += 1  # the same attempts may be shown again, and sampling gives another lesson
            contents = [f"Lesson: {self.propose(number, codes, (self._asked[number], text))}"]
        else:
            number = int(_ID.findall(text)[-1])
            keys = [(text, body.get("seed"), index) for index in range(body.get("n") or 1)]
            answers = [7 if self.is_right(number, codes, key) else 8 for key in keys]
            contents = [json.dumps({"target_variable": "n", "final_answer": str(answer)}) for answer in answers]
        self.tokens += sum(len(message.split()) for message in (text, *contents))
        return contents

    def _reflected(self, text: str, codes: Sequence[str]) -> str:
        """New instructions: the known experiences, and one for the first wrong answer and 70 % of the others."""
        rng = random.Random(text)
        known = [line for line in text.splitlines() if CODE.search(line)]
        wrong = list(dict.fromkeys(map(int, _WRONG.findall(text))))
        chosen = [number for index, number in enumerate(wrong) if index == 0 or rng.random() < 0.7]
        new = [self.propose(number, codes, text) for number in chosen]
        return "\n".join(["```", *dict.fromkeys(known), *new, "```"])

    def accuracy(self, codes_of: Any) -> tuple[float, float]:
        """The accuracy on new problems, in percent, and the mean number of experiences in a prompt.

        Args:
            codes_of: the experiences for the number of a problem.
        """
        chosen = [(number, codes_of(number)) for number in range(FIRST_NEW, FIRST_NEW + _NEW)]
        right = statistics.fmean(self.chance(number, codes) for number, codes in chosen)
        return 100 * right, statistics.fmean(len(codes) for _, codes in chosen)


def chat_reply(world: World, body: dict[str, Any]) -> dict[str, Any]:
    """The reply to a chat request, as the chat API has it."""
    before = world.tokens
    contents = world.reply(body)
    choices = [
        {"index": index, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
        for index, content in enumerate(contents)
    ]
    written = sum(len(content.split()) for content in contents)
    usage = {"prompt_tokens": world.tokens - before - written, "completion_tokens": written}
    return {"choices": choices, "usage": usage, "model": body["model"]}


@contextlib.contextmanager
def in_process(world: World) -> Iterator[str]:
    """The world in place of the HTTP connections of this process; an address. Takes a third of the processor time."""

    async def post(self: Transport, body: dict[str, Any], headers: dict[str, str]) -> bytes:
        await asyncio.sleep(0)
        return json.dumps(chat_reply(world, body)).encode()

    with mock.patch.object(Transport, "post", post):
        yield "http://127.0.0.1:9/v1"


@contextlib.contextmanager
def served(world: World) -> Iterator[str]:
    """The world behind the chat API, in a thread; its address."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(chat_reply(world, await request.json()))

    loop, ready, address = asyncio.new_event_loop(), threading.Event(), []

    async def start() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address.append(runner.addresses[0][1])
        ready.set()

    def run() -> None:
        loop.create_task(start())
        loop.run_forever()

    threading.Thread(target=run, daemon=True).start()
    ready.wait()
    try:
        yield f"http://127.0.0.1:{address[0]}/v1"
    finally:
        loop.call_soon_threadsafe(loop.stop)
