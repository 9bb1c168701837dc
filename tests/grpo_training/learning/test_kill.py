"""kill -9 at random moments: the results are complete, and only requests in flight are sent again."""

import itertools
import json
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.main_loop import World, normalised

pytestmark = pytest.mark.timeout(900)

KILLS = 50
KILLS_OF_A_RUN = 13  # a run may end before its last kill
RUNS_SIDE_BY_SIDE = 4
LATENCY_S = 0.08
SLACK_S = 0.5  # from sending a reply to its entry in the journal, on a busy machine
WINDOW = 2


def kill_at_random_moments(world, start, rng, kills):
    """Start the command repeatedly and kill it while it starts or works; the times of the kills."""
    times = []
    while len(times) < kills:
        seen = len(world.traffic.requests)
        process = start()
        if rng.random() < 0.3:
            time.sleep(rng.uniform(0, 1.5))
        else:
            until = time.monotonic() + 30
            while process.poll() is None and len(world.traffic.requests) == seen and time.monotonic() < until:
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.8))
        if process.poll() is not None:
            assert process.returncode == 0, process.stdout.read()
            return times
        process.kill()
        process.wait()
        times.append(time.monotonic())
    return times


def assert_nothing_paid_twice(world, undisturbed, kills):
    """Each request was sent once, and once more for each kill while it was in flight."""
    excused = Counter()
    for entry in world.traffic.requests:
        for moment in kills:
            left = entry["left"] or float("inf")
            if entry["came"] <= moment <= left + SLACK_S:
                excused[entry["body"]] += 1
                break
    there, clean = world.traffic.counts(), undisturbed.traffic.counts()
    assert there.keys() == clean.keys()
    for body, count in there.items():
        assert count <= clean[body] + excused[body], json.loads(body)["messages"][-1]["content"][:200]


def undisturbed_run(directory, files, aime2024, command, *flags):
    """A run without kills; for the critic only its own traffic."""
    world = World(directory, files, latency_s=LATENCY_S)
    with world:
        for number in (1, 2, 3) if command == "critic" else ():
            world.generate(number, aime2024)
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


@pytest.mark.parametrize("command", ["generator1", "critic"])
def test_kill_nine(recorded, aime2024, tmp_path, command):
    files = list(recorded.values())
    flags = ["--window", WINDOW, *(() if command == "critic" else ("--dataset", aime2024))]
    undisturbed = undisturbed_run(tmp_path / "clean", files, aime2024, command, *flags)

    def run_with_kills(number):
        """One run from its start to its end; how often it was killed."""
        with World(tmp_path / f"killed{number}", files, latency_s=LATENCY_S) as world:
            if command == "critic":
                copy_of_generators(undisturbed, world)
            rng = random.Random(f"{command} {number}")
            kills = kill_at_random_moments(world, lambda: world.fork(command, *flags), rng, KILLS_OF_A_RUN)
            if len(kills) == KILLS_OF_A_RUN:
                process = world.fork(command, *flags)
                output, _ = process.communicate(timeout=120)
                assert process.returncode == 0, output
            assert normalised(world) == normalised(undisturbed)
            assert_nothing_paid_twice(world, undisturbed, kills)
            return len(kills)

    # A run mostly waits, so several are killed side by side.
    killed, numbers = 0, itertools.count()
    with ThreadPoolExecutor(RUNS_SIDE_BY_SIDE) as runs:
        while killed < KILLS:
            killed += sum(runs.map(run_with_kills, itertools.islice(numbers, RUNS_SIDE_BY_SIDE)))


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
    flags = ("--window", 8, "--dataset", aime2024, "--max-problems", 16)
    undisturbed = undisturbed_run(tmp_path / "clean", files, aime2024, "generator1", *flags)
    script = tmp_path / "forgetful.py"
    script.write_text(FORGETFUL)
    with World(tmp_path / "killed", files, seed=1, longest_s=1.5) as world:
        # The window's first reply arrives last, so the others are in the journal and not yet in the cache.
        kills = kill_at_random_moments(world, lambda: world.fork(script, *flags), random.Random(5), 6)
        process = world.fork(script, *flags)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        with pytest.raises(AssertionError):
            assert_nothing_paid_twice(world, undisturbed, kills)
