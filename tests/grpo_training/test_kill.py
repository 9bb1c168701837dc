"""kill -9 at random moments: nothing lost, nothing twice, nothing paid for again but what was in flight."""

import json
import random
import time
from collections import Counter

import pytest

from tests.main_loop import World, normalised

pytestmark = pytest.mark.timeout(900)

KILLS = 50
LATENCY_S = 0.05
SLACK_S = 0.5  # from a reply's arrival at the socket to its place in the journal, on a loaded machine


def kill_at_random_moments(world, command, flags, rng, kills):
    """Start the command again and again; kill it at random moments of its work. The times of the kills."""
    times = []
    while len(times) < kills:
        seen = len(world.traffic.requests)
        process = world.start(command, *flags)
        # Its first request is out when the interpreter has come up; from there any moment is as likely.
        until = time.monotonic() + 30
        while process.poll() is None and len(world.traffic.requests) == seen and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.12))
        if process.poll() is not None:
            assert process.returncode == 0, process.stdout.read()
            return times
        process.kill()
        process.wait()
        times.append(time.monotonic())
    return times


def assert_nothing_paid_twice(world, undisturbed, kills):
    """Each request came once, and once more for each kill that met it in flight."""
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


@pytest.mark.parametrize("command", ["generator1", "critic"])
def test_kill_nine(recorded, aime2024, tmp_path, command):
    rng = random.Random(command)
    files = list(recorded.values())
    flags = ("--window", 2)
    with World(tmp_path / "clean", files, latency_s=LATENCY_S) as undisturbed:
        for number in (1, 2, 3) if command == "critic" else ():
            undisturbed.generate(number, aime2024)
        undisturbed.traffic.requests.clear()
        dataset = () if command == "critic" else ("--dataset", aime2024)
        process = undisturbed.start(command, *flags, *dataset)
        assert process.wait(120) == 0, process.stdout.read()
    killed = 0
    for trial in range(KILLS):
        with World(tmp_path / f"killed{trial}", files, latency_s=LATENCY_S) as world:
            if command == "critic":
                world.cache.mkdir(parents=True)
                for number in (1, 2, 3):
                    name = f"generator_{number}_rollouts.jsonl"
                    (world.cache / name).write_bytes((undisturbed.cache / name).read_bytes())
            kills = kill_at_random_moments(world, command, [*flags, *dataset], rng, KILLS - killed)
            if len(kills) == KILLS - killed:
                process = world.start(command, *flags, *dataset)
                output, _ = process.communicate(timeout=120)
                assert process.returncode == 0, output
            for name, text in normalised(world).items():
                assert text == normalised(undisturbed)[name]
            assert_nothing_paid_twice(world, undisturbed, kills)
        killed += len(kills)
        if killed >= KILLS:
            return
    pytest.fail(f"only {killed} kills met a running process")
