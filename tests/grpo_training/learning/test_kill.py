"""kill -9 at random moments: the results are complete, and only requests in flight are sent again."""

import contextlib
import itertools
import json
import math
import os
import random
import sqlite3
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.main_loop import World, normalised

KILLS = int(os.environ.get("KILLS", "15"))
"""More of them, for example 50, need minutes."""
pytestmark = pytest.mark.timeout(600 + 20 * KILLS)

KILLS_OF_A_RUN = 5  # a run may end before its last kill
RUNS_SIDE_BY_SIDE = 4
PROBLEMS = 16
LATENCY_S = 0.2  # long enough for all kills of a run: each further run takes processor time of its own
LONGEST_S = 0.4  # a further random time of each reply, so that groups are stored in another order than that of problems
WINDOW = 4
TIMEOUT_S = 60  # a busy machine must not make a request time out: it would be sent again


class Kill:
    """A process was killed: how many requests the server had read, and the reply texts in the journal."""

    def __init__(self, world):
        self.received = len(world.traffic.requests)
        self.stored = Counter()
        journal = world.cache / "requests.sqlite"
        if journal.exists():
            with contextlib.closing(sqlite3.connect(journal)) as opened:
                tables = opened.execute("SELECT name FROM sqlite_master WHERE name = 'replies'").fetchall()
                rows = opened.execute("SELECT completion FROM replies").fetchall() if tables else []
            self.stored.update(json.loads(row)["text"] for (row,) in rows)


def kill_at_random_moments(world, start, rng, count):
    """Start the command repeatedly and kill it while it starts or works; a run may end before the last kill."""
    kills = []
    while len(kills) < count:
        received = len(world.traffic.requests)
        process = start()
        if rng.random() < 0.3:
            time.sleep(rng.uniform(0, 1.5))
        else:
            until = time.monotonic() + 30
            while process.poll() is None and len(world.traffic.requests) == received and time.monotonic() < until:
                time.sleep(0.005)
            time.sleep(rng.uniform(0, 0.8))
        if process.poll() is not None:
            assert process.returncode == 0, process.stdout.read()
            return kills
        process.kill()
        process.wait()
        kills.append(Kill(world))
    return kills


def kill_when_replies_are_stored(world, start):
    """Start the command and kill it as soon as two more replies are in the journal."""
    wanted = Kill(world).stored.total() + 2
    process = start()
    while (kill := Kill(world)).stored.total() < wanted:
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.005)
    process.kill()
    process.wait()
    return kill


def assert_nothing_paid_twice(world, undisturbed, kills):
    """A reply in the journal is not requested again; others once more for each kill between request and journal."""
    there, clean = world.traffic.counts(), undisturbed.traffic.counts()
    assert there.keys() == clean.keys()
    text_of = {entry["body"]: reply_text(entry) for entry in undisturbed.traffic.requests}
    bodies_with = Counter(text_of.values())
    bodies = [entry["body"] for entry in world.traffic.requests]
    ends = [0, *(kill.received for kill in kills), len(bodies)]
    allowed = Counter(clean)
    for number, kill in enumerate(kills):
        # Of equal replies the journal has one row for each request.
        stored = {body for body, text in text_of.items() if kill.stored[text] >= bodies_with[text]}
        again = stored.intersection(bodies[kill.received :])
        assert not again, last_message(again.pop())
        # The server may read the last requests of a process after its death, so those of the next one count too.
        allowed.update(set(bodies[ends[number] : ends[number + 2]]) - stored)
    for body, count in there.items():
        assert count <= allowed[body], last_message(body)


def last_message(body):
    return json.loads(body)["messages"][-1]["content"][:200]


def reply_text(entry):
    """The text that the server sent."""
    return json.loads(entry["reply"])["choices"][0]["message"]["content"]


def undisturbed_run(directory, files, aime2024, command, *flags):
    """A run without kills; for the critic only its own traffic."""
    world = World(directory, files, latency_s=LATENCY_S)
    with world:
        world.write_config(world.base_url, timeout_s=TIMEOUT_S)
        for number in (1, 2, 3) if command == "critic" else ():
            world.generate(number, aime2024, "--max-problems", PROBLEMS)
        world.traffic.requests.clear()
        process = world.fork(command, *flags)
        assert process.wait(120) == 0, process.stdout.read()
    return world


def copy_of_generators(source, world):
    """Give a world the caches and libraries that the generators of another one wrote."""
    for there, here in ((source.cache, world.cache), (source.experiences, world.experiences)):
        here.mkdir(parents=True)
        for path in there.glob("generator_*"):
            (here / path.name).write_bytes(path.read_bytes())


REWARD = """
import re
from engine.tasks.simple import SimpleTask

def score(reply, row):
    given = re.findall(r'"final_answer": *"?([0-9]+)', reply)
    paid = {"right": given == [str(int(row["answer"]))], "brief": 1 / (1 + len(reply) % 7)}
    return paid, f"the final answer of this reply is {given}"

TASK = SimpleTask("{problem}", score)
"""


@pytest.mark.parametrize(("command", "has_feedback"), [("generator1", False), ("generator1", True), ("critic", False)])
def test_kill_nine(recorded, aime2024, tmp_path, command, has_feedback):
    files = list(recorded.values())
    dataset = ("--dataset", aime2024, "--max-problems", PROBLEMS)
    flags = ["--window", WINDOW, *(() if command == "critic" else dataset)]
    if has_feedback:
        (tmp_path / "reward.py").write_text(REWARD)
        flags += ["--task", f"{tmp_path / 'reward.py'}:TASK"]
    undisturbed = undisturbed_run(tmp_path / "clean", files, aime2024, command, *flags)
    with_feedback = [body for body in undisturbed.traffic.counts() if b"the final answer of this reply is" in body]
    assert bool(with_feedback) == has_feedback

    def run_with_kills(number):
        """One run from its start to its end; how often it was killed, and whether lines were stored out of order."""
        uneven = {"latency_s": LATENCY_S, "seed": number, "longest_s": LONGEST_S}
        with World(tmp_path / f"killed{number}", files, **uneven) as world:
            world.write_config(world.base_url, timeout_s=TIMEOUT_S)
            if command == "critic":
                copy_of_generators(undisturbed, world)
            rng = random.Random(f"{command} {number} {has_feedback}")
            kills = kill_at_random_moments(world, lambda: world.fork(command, *flags), rng, KILLS_OF_A_RUN)
            if len(kills) == KILLS_OF_A_RUN:
                process = world.fork(command, *flags)
                output, _ = process.communicate(timeout=120)
                assert process.returncode == 0, output
            assert normalised(world) == normalised(undisturbed)
            assert_nothing_paid_twice(world, undisturbed, kills)
            assert '"kind": "case"' in (world.experiences / "generator_1_experiences.json").read_text()
            results = world.cache / ("critic_results.jsonl" if command == "critic" else "generator_1_rollouts.jsonl")
            steps = [json.loads(line)["step"] for line in results.read_text().splitlines()]
            return len(kills), steps != sorted(steps)

    # A run mostly waits, so several are killed side by side.
    killed, out_of_order, numbers = 0, 0, itertools.count()
    with ThreadPoolExecutor(RUNS_SIDE_BY_SIDE) as runs:
        while killed < KILLS:
            most = min(RUNS_SIDE_BY_SIDE, math.ceil((KILLS - killed) / KILLS_OF_A_RUN))
            for kills, is_out_of_order in runs.map(run_with_kills, itertools.islice(numbers, most)):
                killed, out_of_order = killed + kills, out_of_order + is_out_of_order
    assert out_of_order > 0


FORGETFUL = """
import sys
from engine.llm.journal import ResponseJournal
from grpo_training.cli.entry import run_command
from grpo_training.generator1 import main
ResponseJournal.get_many = lambda self, keys: {}
run_command(lambda: main(sys.argv[1:]))
"""


def test_the_check_detects_a_journal_that_loses_replies(recorded, aime2024, tmp_path):
    files = list(recorded.values())
    flags = ("--window", 8, "--dataset", aime2024, "--max-problems", PROBLEMS)
    undisturbed = undisturbed_run(tmp_path / "clean", files, aime2024, "generator1", *flags)
    with World(tmp_path / "killed", files, seed=1, longest_s=1.5) as world:
        # Replies of a group arrive one by one, so some are in the journal and not yet in the cache.
        kills = [kill_when_replies_are_stored(world, lambda: world.fork(FORGETFUL, *flags)) for _ in range(3)]
        process = world.fork(FORGETFUL, *flags)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        with pytest.raises(AssertionError):
            assert_nothing_paid_twice(world, undisturbed, kills)
