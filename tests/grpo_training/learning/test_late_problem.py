"""One problem takes much longer than the others: these do not wait for it, and kill -9 meanwhile loses nothing."""

import json
import threading

import pytest
from aiohttp import web

from tests.support.analyst import for_analyst
from tests.support.main_loop import World, groups_of

pytestmark = pytest.mark.timeout(300)
PROBLEMS, LATE = 20, "aime2024_004"


class Held:
    """Holds back the replies to requests about a problem until it is opened."""

    def __init__(self, text):
        self._text, self.is_open, self.held = text, threading.Event(), threading.Event()

    def middleware(self):
        import asyncio

        @web.middleware
        async def hold(request, handler):
            if request.method == "POST":
                body = await request.json()
                if self._text in body["messages"][-1]["content"] and not for_analyst(body):
                    self.held.set()
                    await asyncio.to_thread(self.is_open.wait, 240)
            return await handler(request)

        return hold


@pytest.mark.parametrize("at_kill", [9, PROBLEMS - 1])
def test_the_other_groups_are_stored_while_one_problem_is_late_and_nothing_is_asked_twice(
    recorded, aime2024, tmp_path, at_kill
):
    lines = recorded["generator_1_rollouts"].read_text().splitlines()
    late = next(line for line in map(json.loads, lines) if line["problem_id"] == LATE)
    barrier = Held(late["problem_text"])
    flags = ("--dataset", aime2024, "--max-problems", PROBLEMS)
    with World(tmp_path, list(recorded.values()), barrier=barrier) as world:
        world.write_config(world.base_url, timeout_s=240)
        process = world.fork("generator1", *flags)
        while len(stored := groups_of(world, 1)) < at_kill:
            assert process.poll() is None, process.stdout.read()
            barrier.held.wait(0.05)
        process.kill()
        process.wait()
        step = min(set(range(PROBLEMS)) - {group["step"] for group in stored})
        assert LATE not in {group["problem_id"] for group in stored}
        early = json.loads((world.cache / "generator_1_run.json").read_text())["asked_early"]
        assert dict.fromkeys(map(str, range(step + 2, at_kill)), step).items() <= early.items()
        asked = world.traffic.counts()
        barrier.is_open.set()
        process = world.fork("generator1", *flags)
        output, code = process.communicate(timeout=60)
        assert code == 0, output
        again = world.traffic.counts() - asked
    if at_kill == PROBLEMS - 1:
        about_late = {body for body in again if late["problem_text"] in json.loads(body)["messages"][-1]["content"]}
        assert {body for body in again if asked[body]} <= about_late  # those in flight
    bodies = map(json.loads, world.traffic.counts())
    prompts = {
        body["messages"][1]["content"] for body in bodies if len(body["messages"]) == 2 and not for_analyst(body)
    }
    for group in groups_of(world, 1):
        about = [prompt for prompt in prompts if prompt.endswith(f"Problem:\n{group['problem_text']}")]
        assert len(about) in (1, 2)  # two halves, with the same experiences before and after
    library = world.experiences / "generator_1_experiences.ops.jsonl"
    steps = [event["step"] for event in map(json.loads, library.read_text().splitlines()) if event["event"] == "step"]
    assert steps == list(range(PROBLEMS))
    assert len(groups_of(world, 1)) == PROBLEMS
