"""The executor on a Ray cluster of two nodes on this machine."""

import asyncio
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiohttp import web

from engine.errors import BudgetExceededError, ConfigurationError, IncompleteRunError, InputError
from engine.executor.choice import open_executor
from grpo_training.score_rollouts.__main__ import main as score_rollouts
from grpo_training.score_rollouts.workers import VerifierDescription
from tests.engine.executor.conftest import ONE_CPU
from tests.support.main_loop import World, fusions_of, groups_of, normalised
from tests.support.ray_processes import wait_for, worker_processes
from tests.support.ray_work import Squares, Unmakeable, Unopenable
from tests.support.recorded_replies import EXAMPLE_FILES

pytest.importorskip("ray", reason="Ray is not installed (make ray)")
pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

from engine.executor.ray_pool import RayPool  # noqa: E402 - needs Ray

PROBLEMS, SAMPLES = 8, 4
ONE_BY_ONE = {"never_send": ["n"], "timeout_s": 900}
"""One request per sample, which waits as long as its reply is held back."""
BOTH = ("--generators", "1,2", "--window", PROBLEMS)


@pytest.fixture
def executor(cluster):
    with open_executor("ray") as opened:
        yield opened


def test_items_are_worked_on_by_both_nodes_and_errors_stay_what_they_are(executor):
    with executor.pool(Squares(), 2) as pool:
        futures = [pool.submit(number) for number in range(40)]
        assert [future.result(300)[0] for future in futures] == [number * number for number in range(40)]
        wait_for(lambda: len({node for node, _ in pool.places().values()}) == 2)
        with pytest.raises(InputError, match="-3 is negative") as raised:
            pool.submit(-3).result(300)
        assert raised.value.fix == "Give another number."


def test_an_object_that_the_cluster_cannot_make_is_an_error_that_names_what_nodes_share(executor):
    with pytest.raises(ConfigurationError, match="Cannot use Unmakeable on the Ray cluster") as raised:
        executor.beside_driver(Unmakeable)
    assert "RAY_AUTH_MODE" in raised.value.fix


def test_a_node_that_leaves_gives_its_items_to_the_others_and_one_that_joins_gets_work(cluster, executor, tmp_path):
    gate, lost = tmp_path / "gate", []
    with executor.pool(Squares(gate=str(gate)), 2, lost=lost.append) as pool:
        wait_for(lambda: len(pool.places()) == 2)
        waiting = [pool.submit(100), pool.submit(101)]  # one on each node
        leaving = next(node for node in cluster.worker_nodes)
        cluster.remove_node(leaving)
        wait_for(lambda: lost)
        gate.touch()
        assert [future.result(300)[0] for future in waiting] == [100**2, 101**2]
        joined = cluster.add_node(**ONE_CPU)
        wait_for(lambda: joined.node_id in {node for node, _ in pool.places().values()})
        assert len(lost) == 1


@pytest.fixture
def calls(monkeypatch):
    """The number of items of each call whose results arrived."""
    sizes, adapt = [], RayPool._adapt

    def watched(pool, items, seconds):
        sizes.append(items)
        adapt(pool, items, seconds)

    monkeypatch.setattr(RayPool, "_adapt", watched)
    return sizes


@pytest.mark.parametrize(("call_s", "in_flight", "most"), [(1000, 1, 32), (0, 1, 1), (1000, 2, 1)])
def test_short_items_travel_together(executor, calls, monkeypatch, call_s, in_flight, most):
    monkeypatch.setattr("engine.executor.ray_pool._CALL_S", call_s)  # for this process: what counts as short
    with executor.pool(Squares(), 1, in_flight=in_flight) as pool:
        futures = [pool.submit(number) for number in range(300)]
        assert [future.result(300)[0] for future in futures] == [number * number for number in range(300)]
    assert calls[:1] == [1]
    assert max(calls) == most


def test_items_that_take_longer_than_the_others_go_back_to_the_queue(executor, calls, monkeypatch):
    monkeypatch.setattr("engine.executor.ray_pool._CALL_S", 1000)  # for this process; a worker returns after 0.1 s
    with executor.pool(Squares(seconds=0.11), 1) as pool:
        futures = [pool.submit(number) for number in range(8)]
        assert [future.result(300)[0] for future in futures] == [number * number for number in range(8)]
    assert len(calls) == 8
    assert max(calls) > 1


def test_an_item_that_ends_every_worker_is_given_up_and_the_others_are_not(executor, calls, monkeypatch):
    monkeypatch.setattr("engine.executor.ray_pool.MOST_LOSSES", 2)
    monkeypatch.setattr("engine.executor.ray_pool._CALL_S", 1000)
    with executor.pool(Squares(deadly=80), 1) as pool:
        futures = [pool.submit(number) for number in range(100)]
        with pytest.raises(IncompleteRunError, match="ended 2 times"):
            futures[80].result(300)
        del futures[80]
        assert sum(future.result(300)[0] for future in futures) == sum(number**2 for number in range(100)) - 80**2
    assert max(calls) > 4


def test_workers_that_never_start_end_the_run(executor, monkeypatch):
    monkeypatch.setattr("engine.executor.ray_pool.MOST_LOSSES", 2)
    with executor.pool(Unopenable(), 1) as pool, pytest.raises(IncompleteRunError, match="2 workers ended before"):
        pool.submit(1).result(300)


def test_a_node_with_another_verifier_is_refused(executor):
    description = VerifierDescription("math", None, {"version": "of another machine"})
    with executor.pool(description, 1) as pool, pytest.raises(ConfigurationError, match="on the node"):
        pool.submit(None).result(300)


def test_scored_rows_are_those_of_one_process(cluster, tmp_path, monkeypatch):
    rng = random.Random(1)
    prompts, rollouts = tmp_path / "prompts.jsonl", tmp_path / "rollouts.jsonl"
    problems = [{"id": f"p{n}", "problem": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(10)]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in problems))
    rows = [
        {"prompt_id": f"p{n}", "group_id": place, "text": f"So it is \\boxed{{{2 * n + rng.choice([0, 1])}}}"}
        for place in range(6)
        for n in range(10)
    ]
    rollouts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = ["--task", "math", "--prompts", str(prompts), "--rollouts", str(rollouts)]
    for name, more in (("here", ["--workers", "1"]), ("ray", ["--executor", "ray"])):
        assert score_rollouts([*common, "--out", str(tmp_path / f"{name}.jsonl"), *more]) == 0
    assert (tmp_path / "here.jsonl").read_bytes() == (tmp_path / "ray.jsonl").read_bytes()


class Barrier:
    """Holds back the replies to some requests of the learners until it is opened.

    Args:
        holds: whether a request is held, by its sample index and its body.
    """

    def __init__(self, holds):
        self.holds, self.is_open, self.held = holds, threading.Event(), 0

    def middleware(self):
        @web.middleware
        async def hold(request, handler):
            if request.method == "POST":
                body = await request.json()
                is_analyst = "operations" in body["messages"][0]["content"]
                if not is_analyst and self.holds(int(request.headers["X-Sample-Index"]), body):
                    self.held += 1
                    await asyncio.to_thread(self.is_open.wait)
            return await handler(request)

        return hold


def is_last_sample(index, body):
    return index == SAMPLES - 1


def is_every_other(index, body):
    """About half of the requests, always the same ones."""
    return hashlib.sha256(json.dumps(body).encode()).digest()[0] % 2 == 1


@pytest.fixture(scope="module")
def in_one_process(tmp_path_factory):
    """A run in one process, one request per sample: its files, and its requests."""
    world = World(tmp_path_factory.mktemp("clean"), EXAMPLE_FILES, copies=False)
    with world:
        world.write_config(world.base_url, **ONE_BY_ONE)
        assert (
            world.generate(1, "quickstart", "--max-problems", PROBLEMS, "--rollouts", SAMPLES, "--window", PROBLEMS)
            == 0
        )
    return world


def stored(world):
    """The number of replies in the journal."""
    path = world.cache / "requests.sqlite"
    if not path.exists():
        return 0
    with sqlite3.connect(path) as file:
        try:
            return file.execute("SELECT count(*) FROM replies").fetchone()[0]
        except sqlite3.OperationalError:  # the table is not there yet
            return 0


def all_stored(world, least):
    """Whether at least so many requests were answered, and all replies are in the journal."""
    answered = sum(entry["left"] is not None for entry in world.traffic.requests)
    return answered >= least and answered == stored(world)


def repeated(world, clean):
    """Requests beyond those of a run without losses -> how often; none of the requests may be another one."""
    there, once = world.traffic.counts(), clean.traffic.counts()
    assert there.keys() == once.keys()
    return there - once


def test_a_generator_writes_the_files_of_one_process(cluster, in_one_process, tmp_path):
    world = World(tmp_path, EXAMPLE_FILES, copies=False)
    with world:
        world.write_config(world.base_url, **ONE_BY_ONE)
        more = ("--max-problems", PROBLEMS, "--rollouts", SAMPLES, "--window", PROBLEMS, "--executor", "ray")
        assert world.generate(1, "quickstart", *more) == 0
    assert normalised(world) == normalised(in_one_process)
    assert not repeated(world, in_one_process)
    assert all(b"EMPTY" not in path.read_bytes() for path in world.cache.iterdir())


@pytest.fixture(scope="module")
def fused(tmp_path_factory):
    """Runs of two generators and the critic in one process: their files, and the requests of the critic."""
    world = World(tmp_path_factory.mktemp("fused"), EXAMPLE_FILES, copies=False)
    with world:
        world.write_config(world.base_url, **ONE_BY_ONE)
        for number in (1, 2):
            assert (
                world.generate(
                    number, "quickstart", "--max-problems", PROBLEMS, "--rollouts", SAMPLES, "--window", PROBLEMS
                )
                == 0
            )
        world.traffic.requests.clear()
        assert world.criticise(*BOTH) == 0
    return world


def with_caches(fused, folder, numbers, **options):
    """A world that has the files of some generators of another one."""
    world = World(folder, EXAMPLE_FILES, copies=False, **options)
    for number in numbers:
        for place in ("cache", "experiences"):
            for path in getattr(fused, place).glob(f"generator_{number}_*"):
                target = getattr(world, place) / path.name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
    return world


def test_the_critic_writes_the_files_of_one_process(cluster, fused, tmp_path):
    with with_caches(fused, tmp_path, (1, 2)) as world:
        assert world.criticise(*BOTH, "--executor", "ray", "--workers", 1) == 0
    assert len(fusions_of(world)) == 2 * PROBLEMS
    assert normalised(world) == normalised(fused)
    assert world.traffic.requests
    assert not repeated(world, fused)


def test_the_critic_follows_a_generator_from_a_cluster(cluster, fused, tmp_path):
    last = groups_of(fused, 1)[-1]["problem_text"]
    barrier = Barrier(lambda _, body: body["model"] == "generator_1" and last in body["messages"][-1]["content"])
    with with_caches(fused, tmp_path, (2,), barrier=barrier) as world, ThreadPoolExecutor(1) as threads:
        world.write_config(world.base_url, **ONE_BY_ONE)
        critic = world.start("critic", *BOTH, "--follow", "--executor", f"ray:{cluster.address}")
        wait_for(lambda: critic.poll() is not None or worker_processes(cluster))
        more = ("--max-problems", PROBLEMS, "--rollouts", SAMPLES, "--window", PROBLEMS)
        generator = threads.submit(world.generate, 1, "quickstart", *more)
        wait_for(lambda: critic.poll() is not None or (barrier.held and fusions_of(world)))
        assert not generator.done()
        barrier.is_open.set()
        assert generator.result(300) == 0
        output, _ = critic.communicate(timeout=300)
    assert critic.returncode == 0, output
    assert normalised(world) == normalised(fused)


def test_a_node_with_another_prompt_makes_nothing(cluster, tmp_path, monkeypatch):
    world = World(tmp_path, EXAMPLE_FILES, copies=False)
    monkeypatch.setattr("grpo_training.learning.groups.remote.prompt_hash", lambda task, style: "of another version")
    with world, pytest.raises(ConfigurationError, match="would be treated differently on the node"):
        world.generate(1, "quickstart", "--max-problems", 1, "--executor", "ray", "--workers", 1)
    assert groups_of(world, 1) == []


@pytest.mark.parametrize("learner", ["generator", "critic"])
def test_replies_of_a_worker_that_is_killed_are_not_asked_for_again(cluster, in_one_process, fused, tmp_path, learner):
    clean = in_one_process if learner == "generator" else fused
    barrier = Barrier(is_last_sample if learner == "generator" else is_every_other)
    asked = [body for body in map(json.loads, clean.traffic.counts()) if "operations" not in str(body["messages"][0])]
    held = PROBLEMS if learner == "generator" else sum(is_every_other(0, body) for body in asked)
    assert 0 < held < len(asked)
    world = with_caches(fused, tmp_path, () if learner == "generator" else (1, 2), barrier=barrier)
    with world, ThreadPoolExecutor(1) as threads:
        world.write_config(world.base_url, **ONE_BY_ONE)
        more = ("--executor", "ray", "--workers", 1)
        if learner == "generator":
            run = threads.submit(
                world.generate,
                1,
                "quickstart",
                "--max-problems",
                PROBLEMS,
                "--rollouts",
                SAMPLES,
                "--window",
                PROBLEMS,
                *more,
            )
        else:
            run = threads.submit(world.criticise, *BOTH, *more)
        wait_for(lambda: run.done() or (barrier.held == held and all_stored(world, len(asked) - held)))
        wait_for(lambda: len(worker_processes(cluster)) == 1)  # those of earlier tests are gone
        [worker] = worker_processes(cluster)
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: run.done() or barrier.held == 2 * held)
        barrier.is_open.set()
        assert run.result(300) == 0
    assert normalised(world) == normalised(clean)
    assert sum(repeated(world, clean).values()) == held  # those in flight


def test_a_command_that_is_killed_goes_on_and_asks_for_nothing_twice(cluster, in_one_process, tmp_path):
    barrier = Barrier(is_last_sample)
    world = World(tmp_path, EXAMPLE_FILES, copies=False, barrier=barrier)
    with world:
        world.write_config(world.base_url, **ONE_BY_ONE)
        flags = ("--dataset", "quickstart", "--max-problems", PROBLEMS, "--rollouts", SAMPLES, "--window", 2)
        one = ("--workers", 1)
        process = world.start("generator1", *flags, *one, "--executor", f"ray:{cluster.address}")
        wait_for(lambda: process.poll() is not None or (barrier.held == 2 and all_stored(world, 2 * (SAMPLES - 1))))
        process.kill()
        process.communicate()
        assert groups_of(world, 1) == []
        wait_for(lambda: not worker_processes(cluster))  # they end with the command
        barrier.is_open.set()
        assert world.generate(1, *flags[1:], *one, "--executor", "ray") == 0
    clean = World(tmp_path / "clean", EXAMPLE_FILES, copies=False)
    with clean:
        clean.write_config(clean.base_url, **ONE_BY_ONE)
        assert clean.generate(1, *flags[1:]) == 0
    assert normalised(world) == normalised(clean)
    assert sum(repeated(world, clean).values()) == 2  # those in flight, one per problem of the window


def test_the_budget_is_one_for_all_workers(cluster, in_one_process, tmp_path):
    world = World(tmp_path, EXAMPLE_FILES, copies=False)
    with world:
        more = ("--max-problems", PROBLEMS, "--rollouts", SAMPLES, "--window", PROBLEMS, "--executor", "ray")
        with pytest.raises(BudgetExceededError, match="tokens of 12000"):
            world.generate(1, "quickstart", *more, "--max-tokens", 1000, "--budget-tokens", 12000)
    counts = world.traffic.counts()
    assert max(counts.values()) == 1
    # Each request reserves more than 6000 tokens and uses about 1100, so the budget lasts for some of the problems.
    assert 0 < sum(b"operations" not in body for body in counts) < PROBLEMS
