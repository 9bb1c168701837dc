"""What learning gains in planted worlds, through the real generator command.

A world has families of problems, and two experiences for each family that help by 20 to 40 points. After a group whose
answers differ, the analyst of the world proposes one experience: with probability q one of these two; else one that
harms (30 %), one that only helps with its own problem, or one without effect. A prompt loses 0.2 points for each
experience, and what is written for another family now and then harms. The accuracy on new problems is computed, not
sampled: the world knows the chance of a right answer for each prompt.

    python -m bench.learning --problems 300 --rollouts 4000 --q 0.4 --seeds 3
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import random
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from engine.experience.choice import LearnedExperiences
from engine.experience.library import ExperienceLibrary
from engine.records import Problem
from grpo_training import generator1

POLICIES: dict[str, list[str]] = {
    "all at once": ["--learn", "add"],
    "8 matching": ["--learn", "add", "--select", "text", "--capacity", "256"],
    "trial": ["--learn", "trial"],
}
_CODE = re.compile(r"\bx[0-9a-f]{7}\b")
_ID = re.compile(r"\bcase (\d+)\b")
_GROUP = 3
_NEW = 600


def _fraction(*key: object) -> float:
    """A number in [0, 1) from a hash."""
    digest = hashlib.sha256("\0".join(map(str, key)).encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


@dataclass
class Planted:
    """The effect of a proposed experience: by family, on its own problem, and the insight that it holds."""

    effects: list[float]
    own_problem: int
    own_bonus: float = 0.0
    insight: tuple[int, int] | None = None


@dataclass
class World:
    """A planted world.

    Args:
        seed: two worlds with one seed are equal.
        families: number of families.
        q: probability that a proposal helps.
        overlap: share of a problem's words that every family has; more makes matching harder.
    """

    seed: int
    families: int
    q: float
    overlap: float = 0.5
    planted: dict[str, Planted] = field(default_factory=dict)
    calls: int = 0

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        self.base = [rng.uniform(0.3, 0.5) for _ in range(self.families)]
        self.gains = [[rng.uniform(0.2, 0.4) for _ in range(2)] for _ in range(self.families)]
        words = ["".join(rng.choices("bcdfglmnprstvz", k=2)) + str(n) for n in range(12 * self.families + 200)]
        self.words = [words[12 * n : 12 * n + 12] for n in range(self.families)]
        self.common = words[12 * self.families :]
        self._rng = rng

    def text(self, number: int) -> str:
        """The text of problem ``number``; its family is the number modulo the families."""
        rng = random.Random(f"{self.seed}:{number}")
        own = rng.sample(self.words[number % self.families], 6)
        shared = rng.sample(self.common, round(6 * self.overlap / (1 - self.overlap)))
        words = own + shared
        rng.shuffle(words)
        return f"In case {number}: {' '.join(words)}. How many?"

    def chance(self, number: int, codes: Sequence[str]) -> float:
        """The probability of a right answer to a problem with these experiences in the prompt."""
        family = number % self.families
        rng = random.Random(f"{self.seed}:level:{number}")
        chance = self.base[family] + rng.gauss(0, 0.25) - 0.002 * len(codes)
        insights: dict[int, float] = {}
        for code in codes:
            one = self.planted[code]
            chance += one.effects[family] + (one.own_bonus if one.own_problem == number else 0.0)
            if one.insight is not None and one.insight[0] == family:
                insights[one.insight[1]] = self.gains[family][one.insight[1]]
        return min(0.98, max(0.02, chance + sum(insights.values())))

    def propose(self, number: int, shown: Sequence[str]) -> str:
        """A proposal of the analyst, from a group of problem ``number``; the content of an experience."""
        self.calls += 1
        rng, family = random.Random(f"{self.seed}:{self.calls}"), number % self.families
        one = Planted([0.0] * self.families, number)
        if rng.random() < self.q:
            known = {self.planted[code].insight for code in shown}
            missing = [n for n in range(2) if (family, n) not in known]
            one.insight = family, rng.choice(missing if missing and rng.random() < 0.7 else [0, 1])
        elif rng.random() < 0.3:
            harm = -rng.uniform(0.05, 0.15)
            if rng.random() < 0.2:
                one.effects = [harm] * self.families
            else:
                one.effects[family] = harm
        elif rng.random() < 0.5:
            one.own_bonus = 0.3
        for other in range(self.families):
            if other != family and rng.random() < 0.02:
                one.effects[other] -= rng.uniform(0.03, 0.08)
        code = "x" + hashlib.sha256(f"{self.seed}:{self.calls}".encode()).hexdigest()[:7]
        self.planted[code] = one
        filler = " ".join(f"{code[1:5]}{n}" for n in range(4))
        return f"When {filler} occurs, do {code}."

    def reply(self, body: dict[str, Any], index: int) -> str:
        """The content of a reply to a chat request."""
        text = " ".join(message["content"] for message in body["messages"])
        number = int(_ID.findall(text)[-1])
        codes = [code for code in dict.fromkeys(_CODE.findall(text)) if code in self.planted]
        if body["model"] == "analyst":
            operation = {"op": "add", "content": self.propose(number, codes), "category": f"f{number % self.families}"}
            return json.dumps({"operations": [operation]})
        is_right = _fraction(self.seed, text, body.get("seed"), index) < self.chance(number, codes)
        return json.dumps({"target_variable": "n", "final_answer": str(7 if is_right else 8)})

    def accuracy(self, lessons: LearnedExperiences | None) -> tuple[float, float]:
        """The accuracy on new problems, in percent, and the mean number of experiences in a prompt."""
        chances, sizes = [], []
        for number in range(10**6, 10**6 + _NEW):
            chosen = lessons.of(Problem(id=str(number), text=self.text(number), answer="")) if lessons else ()
            codes = [_CODE.findall(one.content)[0] for one in chosen]
            chances.append(self.chance(number, codes))
            sizes.append(len(codes))
        return 100 * statistics.fmean(chances), statistics.fmean(sizes)


@contextlib.contextmanager
def served(world: World) -> Iterator[str]:
    """The world behind the chat API, in a thread."""
    import asyncio

    async def answer(request: web.Request) -> web.Response:
        body = await request.json()
        choices = [
            {
                "index": index,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": world.reply(body, index)},
            }
            for index in range(body.get("n") or 1)
        ]
        usage = {"prompt_tokens": 1, "completion_tokens": 1}
        return web.json_response({"choices": choices, "usage": usage, "model": body["model"]})

    loop, ready, address = asyncio.new_event_loop(), threading.Event(), []

    async def start() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        address.append(runner.addresses[0][1])
        ready.set()

    def run() -> None:
        loop.create_task(start())
        loop.run_forever()

    threading.Thread(target=run, daemon=True).start()
    ready.wait()
    yield f"http://127.0.0.1:{address[0]}/v1"
    loop.call_soon_threadsafe(loop.stop)


def learn(world: World, flags: Sequence[str], problems: int, rollouts: int) -> tuple[ExperienceLibrary, int]:
    """Learn with generator 1; its library, and the number of rollouts that were made."""
    folder = Path(tempfile.mkdtemp(prefix="bench-learning-"))
    rows = [{"id": f"p{n}", "problem": world.text(n), "answer": "7"} for n in range(problems)]
    (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    epochs = max(1, round(rollouts / _GROUP / problems))
    count = problems if epochs > 1 else max(1, rollouts // _GROUP)
    with served(world) as url:
        entry = {"api_key": "EMPTY", "base_url": url, "max_concurrency": 32}
        roles = {"generator_1": entry | {"model": "m"}, "analyst": entry | {"model": "analyst"}}
        (folder / "api.json").write_text(json.dumps(roles))
        words = ["--api-config", folder / "api.json", "--dataset", folder / "problems.jsonl", "--window", "8"]
        words += ["--cache-dir", folder / "cache", "--experiences-dir", folder / "libraries", "--rollouts", _GROUP]
        words += ["--epochs", epochs, "--max-problems", count, "--seed", world.seed, *flags]
        with contextlib.redirect_stdout(io.StringIO()):
            generator1.main([str(word) for word in words])
    library = ExperienceLibrary(folder / "libraries/generator_1_experiences.json", read_only=True)
    return library, epochs * count * _GROUP


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=300)
    parser.add_argument("--rollouts", type=int, nargs="*", default=[1000, 4000])
    parser.add_argument("--q", type=float, nargs="*", default=[0.4])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--overlap", type=float, default=0.5)
    parser.add_argument("--policies", nargs="*", default=list(POLICIES), choices=list(POLICIES))
    arguments = parser.parse_args(argv)
    families = 20 if arguments.problems >= 100 else 6
    for q in arguments.q:
        none = [World(seed, families, q).accuracy(None)[0] for seed in range(arguments.seeds)]
        print(f"q = {q}, {arguments.problems} problems in {families} families; none: {statistics.fmean(none):.1f} %")
        for rollouts in arguments.rollouts:
            for policy in arguments.policies:
                started, found, calls, harmful = time.monotonic(), [], 0, []
                for seed in range(arguments.seeds):
                    world = World(seed, families, q, arguments.overlap)
                    library, made = learn(world, POLICIES[policy], arguments.problems, rollouts)
                    found.append(world.accuracy(LearnedExperiences(library.state))[0])
                    calls += world.calls
                    kept = [world.planted[_CODE.findall(one.content)[0]] for one in library.state.helpful]
                    harmful.append(
                        sum(min(one.effects) <= -0.05 for one in kept if not one.insight) / max(1, len(kept))
                    )
                spread = statistics.stdev(found) / len(found) ** 0.5 if len(found) > 1 else 0.0
                print(
                    f"{made:6} rollouts  {policy:12} {statistics.fmean(found):5.1f} % +- {spread:.1f}  "
                    f"analyst calls {calls / arguments.seeds:.0f}, harmful share {statistics.fmean(harmful):.0%}, "
                    f"{(time.monotonic() - started) / arguments.seeds:.0f} s a run",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
