"""kill -9 at random moments of a gate: the same verdict, and only requests in flight are sent again."""

import json
import os
import random
from collections import Counter

import pytest

from engine.experience.events import GateEvent
from engine.experience.library import ExperienceLibrary
from tests.grpo_training.learning.test_kill import TIMEOUT_S, assert_nothing_paid_twice, kill_at_random_moments
from tests.support.main_loop import World

pytestmark = pytest.mark.timeout(300 + 30 * int(os.environ.get("GATE_KILLS", "4")))

KILLS = int(os.environ.get("GATE_KILLS", "4"))
"""More of them, for example 20, need minutes: a process takes about a second of processor time to start."""
LATENCY_S = 0.3  # a gate has four looks of several rounds of requests: long enough for the kills
CONTENTS = ("Check the parity of each term.", "Draw the graph before counting.", "Test small cases first.")


def world_with_library(directory, files):
    """A library of three experiences, and a slow server."""
    world = World(directory, files, latency_s=LATENCY_S)
    world.experiences.mkdir(parents=True)
    entries = [{"id": f"G1-{number:03d}", "content": text} for number, text in enumerate(CONTENTS, 1)]
    (world.experiences / "generator_1_experiences.json").write_text(json.dumps(entries))
    return world


def verdicts(world):
    """The verdicts in the library's log, without times."""
    library = ExperienceLibrary(world.experiences / "generator_1_experiences.json", read_only=True)
    return [entry.event.model_dump(exclude={"at"}) for entry in library.history() if isinstance(entry.event, GateEvent)]


def test_a_gate_that_is_killed_ends_with_the_same_verdict(recorded, aime2024, tmp_path):
    files = list(recorded.values())
    flags = ("--dataset", aime2024, "--samples", 2, "--seed", 3)
    undisturbed = world_with_library(tmp_path / "clean", files)
    with undisturbed:
        undisturbed.write_config(undisturbed.base_url, timeout_s=TIMEOUT_S, max_concurrency=6)
        process = undisturbed.fork("gate", *flags)
        assert process.wait(120) == 0, process.stdout.read()
    (verdict,) = verdicts(undisturbed)
    kills, number = 0, 0
    while kills < KILLS:
        with world_with_library(tmp_path / f"killed{number}", files) as world:
            world.write_config(world.base_url, timeout_s=TIMEOUT_S, max_concurrency=6)
            new_kills = kill_at_random_moments(
                world, lambda world=world: world.fork("gate", *flags), random.Random(number), min(KILLS, 5)
            )
            process = world.fork("gate", *flags)
            output, _ = process.communicate(timeout=120)
            assert process.returncode == 0, output
            assert verdicts(world) == [verdict]
            assert_nothing_paid_twice(world, undisturbed, new_kills)
            assert sum((world.traffic.counts() - undisturbed.traffic.counts()).values()) <= 6 * 2 * len(new_kills)
            assert Counter(world.traffic.counts().keys()) == Counter(undisturbed.traffic.counts().keys())
        kills, number = kills + len(new_kills), number + 1
