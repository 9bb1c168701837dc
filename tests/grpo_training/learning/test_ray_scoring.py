"""Answers scored on a Ray cluster: the files are those of one process, and what the cluster loses is no answer."""

import contextlib
import json
import os
import pickle
import shutil
import signal
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from multiprocessing import get_context

import pytest

from engine.datasets import load_problems
from engine.errors import ConfigurationError, IncompleteRunError, InputError
from engine.records import Completion
from engine.sandbox.zygote_process import strongest_level
from engine.tasks.code.problems import code_problem
from engine.tasks.phaser.seeds.prompt_seeds import make_prompt_seeds
from engine.tasks.phaser.validation import shared_validator
from engine.tasks.phaser.validation.api_index import DEFAULT_PATH
from engine.tasks.registry import load_task, task_named
from grpo_training.agents.judge import Judge
from grpo_training.learning import scoring
from grpo_training.learning.settings import GeneratorSettings
from tests.conftest import ROOT
from tests.engine.tasks.phaser.conftest import api_index, node
from tests.grpo_training.learning import test_code_loop as programs
from tests.grpo_training.learning import test_traffic_loop as signals
from tests.grpo_training.phaser import test_main_loop as games
from tests.support import ray_work
from tests.support.main_loop import World, fusions_of, groups_of, normalised
from tests.support.recorded_replies import EXAMPLE_FILES

__all__ = ["api_index", "node"]

pytestmark = pytest.mark.timeout(900)
ON_RAY = ("--scoring", "ray")
ONE_CPU = {"num_cpus": 1, "object_store_memory": 100 * 2**20}


def wait_for(condition, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


class StandIn:
    """A cluster in a thread: functions, arguments and results are pickled."""

    def __init__(self):
        self.calls = []

    def submit(self, function, *arguments):
        self.calls.append(function)
        packed = pickle.dumps((function, arguments))

        def call():
            loaded, values = pickle.loads(packed)
            return pickle.loads(pickle.dumps(loaded(*values)))

        return ThreadPoolExecutor(1).submit(call)


class Lossy(StandIn):
    """A cluster that loses the second call."""

    def submit(self, function, *arguments):
        if len(self.calls) == 1:
            self.calls.append(function)
            lost = Future()
            lost.set_exception(IncompleteRunError("The Ray cluster has lost the work", why="It was killed."))
            return lost
        return super().submit(function, *arguments)


@pytest.fixture
def stand_in(monkeypatch):
    """Takes the place of the cluster of ``--scoring ray``."""

    def use(cluster):
        at = lambda settings: nullcontext(cluster if settings.scoring == "ray" else None)  # noqa: E731
        monkeypatch.setattr(scoring, "open_cluster", at)
        return cluster

    return use


def files_of(folder, recorded, dataset, *more, numbers=(1,), critic=("--generators", "1", "--learn", "none")):
    """Run generators and the critic; their world."""
    with World(folder, recorded, copies=False) as world:
        world.write_config(world.base_url, timeout_s=900)
        for number in numbers:
            assert world.generate(number, dataset, *more) == 0
        assert world.criticise(*critic, *more[:2]) == 0
    return world


def recorded_decisions(folder):
    rows = signals.rows()
    dataset = folder / "grpo_dataset.json"
    dataset.write_text(json.dumps(rows))
    problems = [task_named("traffic").problem_from_row(row, "here") for row in rows]
    return signals.record(folder / "recorded", problems), dataset


def test_the_files_are_those_of_one_process(stand_in, tmp_path):
    cluster = stand_in(StandIn())
    worlds = {}
    for where, more in (("here", ("--scoring", "local")), ("there", ON_RAY)):
        more = (*more, "--max-problems", 2, "--rollouts", 4)
        worlds[where] = files_of(tmp_path / where, EXAMPLE_FILES, "quickstart", *more)
    assert [len(groups_of(worlds["there"], 1)), len(fusions_of(worlds["there"]))] == [2, 2]
    assert normalised(worlds["there"]) == normalised(worlds["here"])
    assert worlds["there"].traffic.counts() == worlds["here"].traffic.counts()
    assert cluster.calls == [scoring.score_on_node] * (2 * 4 + 2)


def test_decisions_of_traffic_signals_are_scored_as_in_one_process(stand_in, tmp_path):
    stand_in(StandIn())
    recorded, dataset = recorded_decisions(tmp_path)
    here, there = (
        files_of(tmp_path / where, recorded, dataset, "--scoring", where, numbers=(1, 2, 3), critic=())
        for where in ("local", "ray")
    )
    assert normalised(there) == normalised(here)


class OtherProcess:
    """A cluster in a process that has loaded nothing."""

    def __init__(self):
        self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        self.submit = self._pool.submit


async def test_a_task_of_a_user_is_loaded_where_its_answers_are_scored(stand_in):
    stand_in(OtherProcess())
    path = f"{ROOT}/examples/sort_words.py:TASK"
    task = load_task(path)
    [problem] = load_problems("sort_words", max_problems=1)
    words = json.loads(problem.answer)["words"].split()
    candidate = task.parse(Completion(text=f"<answer>{' '.join(sorted(words))}</answer>"), problem)
    results = []
    for where in ("local", "ray"):
        with scoring.open_scorer(GeneratorSettings(task=path, scoring=where), Judge(None, "generator_1")) as scorer:
            results.append(await scorer.score(task, problem, candidate))
    assert results[1] == results[0]
    assert results[0].rewards.r_total == 1


def test_what_the_cluster_loses_is_not_scored_and_the_same_command_goes_on(stand_in, tmp_path):
    stand_in(Lossy())
    more = ("--max-problems", 2, "--rollouts", 2, "--window", 1)
    with World(tmp_path, EXAMPLE_FILES, copies=False) as world:
        with pytest.raises(IncompleteRunError, match="The Ray cluster has lost the work: It was killed"):
            world.generate(1, "quickstart", *more, *ON_RAY)
        assert groups_of(world, 1) == []
        assert world.generate(1, "quickstart", *more) == 0
        asked = world.traffic.counts()
    assert len(groups_of(world, 1)) == 2
    assert max(asked.values()) == 1  # the replies were kept


def test_a_node_that_would_verify_differently_is_refused():
    with pytest.raises(ConfigurationError, match="The task math would verify differently on a node") as raised:
        scoring.score_on_node(None, "math", {"version": "another"}, None, b"")
    assert "another" in raised.value.why


def test_without_ray_the_flag_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "engine.ray_cluster", raising=False)
    with World(tmp_path, EXAMPLE_FILES, copies=False) as world, pytest.raises(ConfigurationError) as raised:
        world.generate(1, "quickstart", "--max-problems", 1, *ON_RAY)
    assert raised.value.what == "--scoring ray needs Ray"
    assert "make ray" in raised.value.fix


def test_an_address_needs_ray(tmp_path):
    with World(tmp_path, EXAMPLE_FILES, copies=False) as world, pytest.raises(InputError, match="--scoring ray"):
        world.generate(1, "quickstart", "--ray-address", "10.0.0.1:6379")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Two nodes with one CPU each, started in another folder; this process is connected to the first."""
    ray = pytest.importorskip("ray", reason="Ray is not installed (make ray)")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")  # it ends workers when other programs fill the memory
        try:
            with contextlib.chdir(tmp_path_factory.mktemp("nodes")):
                started = Cluster(initialize_head=True, head_node_args={**ONE_CPU, "include_dashboard": False})
                started.add_node(**ONE_CPU)
            ray.init(address=started.address, log_to_driver=False, logging_level="ERROR")
        except Exception as error:  # noqa: BLE001 - Ray raises plain ones: too few ports, memory or processors
            pytest.skip(f"Ray does not start on this machine: {error}")
        yield started
        ray.shutdown()
        started.shutdown()


@pytest.fixture
def cluster(nodes):
    from engine.ray_cluster import RayCluster

    with RayCluster() as opened:
        yield opened


@pytest.mark.ray
def test_calls_are_made_on_all_nodes_and_errors_stay_what_they_are(cluster, tmp_path):
    gate = tmp_path / "gate"
    waiting = [cluster.submit(ray_work.square_at_gate, number, str(gate)) for number in (3, 4)]
    wait_for(lambda: len(list(tmp_path.iterdir())) == 2)  # one per CPU, so on both nodes
    gate.touch()
    results = [future.result(300) for future in waiting]
    assert [square for square, _ in results] == [9, 16]
    assert len({process for _, process in results}) == 2
    with pytest.raises(InputError, match=r"-3 is negative \(on the node") as raised:
        cluster.submit(ray_work.square, -3).result(300)
    assert raised.value.fix == "Give another number."
    with pytest.raises(ZeroDivisionError, match="of the task"):
        cluster.submit(ray_work.fail).result(300)


@pytest.mark.ray
def test_a_call_whose_worker_or_node_ends_is_made_by_another(nodes, cluster, tmp_path):
    gate = tmp_path / "gate"
    waiting = [cluster.submit(ray_work.square_at_gate, number, str(gate)) for number in (3, 4)]
    wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
    os.kill(int(next(tmp_path.glob("gate.*")).suffix[1:]), signal.SIGKILL)
    wait_for(lambda: len(list(tmp_path.iterdir())) == 3)
    nodes.remove_node(next(iter(nodes.worker_nodes)))
    nodes.add_node(**ONE_CPU)
    wait_for(lambda: len(list(tmp_path.iterdir())) == 4)
    gate.touch()
    assert [future.result(300)[0] for future in waiting] == [9, 16]


@pytest.mark.ray
def test_a_call_that_ends_every_worker_is_given_up(cluster):
    deadly = cluster.submit(ray_work.end_worker)
    others = [cluster.submit(ray_work.square, number) for number in range(5)]
    with pytest.raises(IncompleteRunError, match="has lost the work"):
        deadly.result(300)
    assert [future.result(300)[0] for future in others] == [0, 1, 4, 9, 16]


@pytest.mark.ray
def test_programs_run_in_the_sandbox_of_a_node(cluster, tmp_path):
    try:
        strongest_level()
    except ConfigurationError as error:
        pytest.skip(error.what)
    dataset = tmp_path / "own.jsonl"
    dataset.write_text("".join(json.dumps(row) + "\n" for row in programs.ROWS))
    (tmp_path / "recorded").mkdir()
    recorded = programs.record(tmp_path / "recorded", [code_problem(row, "here") for row in programs.ROWS])
    here, there = (
        files_of(tmp_path / where, recorded, dataset, "--scoring", where, numbers=(1, 2, 3), critic=())
        for where in ("local", "ray")
    )
    assert normalised(there) == normalised(here)
    assert [[rollout["r_ans"] for rollout in group["rollouts"]] for group in groups_of(there, 1)] == [[1.0, 0, 0]] * 2


@pytest.fixture
def default_index(api_index, tmp_path, monkeypatch):
    """The index in its usual place below the folder of the command, and validators that end with the test."""
    shutil.copytree(api_index.path.parent, tmp_path / DEFAULT_PATH.parent)
    monkeypatch.chdir(tmp_path)
    opened = {}
    monkeypatch.setattr(shared_validator, "_open", opened)
    yield
    for _, validator in opened.values():
        validator.close()


@pytest.mark.ray
@pytest.mark.node
def test_games_run_in_the_validator_of_a_node(cluster, default_index, tmp_path):
    rows = make_prompt_seeds(40, 1, "en")[:1]
    dataset = tmp_path / "prompts.jsonl"
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
    recorded = games.record(tmp_path / "recorded", rows)
    here, there = (files_of(tmp_path / where, recorded, dataset, "--scoring", where) for where in ("local", "ray"))
    assert normalised(there) == normalised(here)
    [group] = groups_of(there, 1)
    assert [rollout["is_correct"] for rollout in group["rollouts"]] == [True, False, False]
