"""Groups and fusions of a cluster's workers, here with a stand-in for the cluster: orders and results are pickled."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from engine.errors import ConfigurationError
from engine.executor.local import LocalPool
from grpo_training.learning.groups import remote
from tests.support.main_loop import World, fusions_of, groups_of, normalised
from tests.support.recorded_replies import EXAMPLE_FILES

pytestmark = pytest.mark.timeout(300)
CLUSTER = ("--executor", "ray", "--workers", 1)


class Beside:
    """Calls an object in a thread, one call at a time, as the handle of an actor does."""

    def __init__(self, kind, *arguments):
        self._target = kind(*arguments)
        self._thread = ThreadPoolExecutor(1)

    def call(self, method, *arguments):
        return self._thread.submit(getattr(self._target, method), *arguments)

    def end(self):
        self._thread.shutdown()


class Pickled:
    """Describes workers whose items and results travel by pickle."""

    def __init__(self, description):
        self._description = description

    def open(self, number):
        worker = self._description.open(number)
        run = worker.run
        worker.run = lambda item: pickle.loads(pickle.dumps(run(pickle.loads(pickle.dumps(item)))))
        return worker


class StandIn:
    cpus, hosts, beside_driver = 2, frozenset({"127.0.0.1"}), Beside

    def pool(self, description, workers, *, in_flight, lost):
        return LocalPool(Pickled(description), 1, in_flight=in_flight)


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch):
    monkeypatch.setattr(remote, "open_cluster", lambda name: nullcontext(StandIn()))


def test_generator_and_critic_write_the_files_of_one_process(tmp_path):
    worlds = []
    for name, more in (("here", ()), ("there", CLUSTER)):
        with World(tmp_path / name, EXAMPLE_FILES, copies=False) as world:
            assert world.generate(1, "quickstart", "--max-problems", 2, "--rollouts", 4, *more) == 0
            assert world.criticise("--generators", "1", "--learn", "none", *more) == 0
        worlds.append(world)
    here, there = worlds
    assert [len(groups_of(there, 1)), len(fusions_of(there))] == [2, 2]
    assert normalised(there) == normalised(here)
    assert there.traffic.counts() == here.traffic.counts()


def test_a_worker_with_another_prompt_makes_nothing(tmp_path, monkeypatch):
    facts_of, hashes = remote.Facts.of, iter(("of the command", "of a worker"))
    monkeypatch.setattr(remote.Facts, "of", lambda *given: facts_of(*given)._replace(prompt_hash=next(hashes)))
    with (
        World(tmp_path, EXAMPLE_FILES, copies=False) as world,
        pytest.raises(ConfigurationError, match="would be treated differently on the node"),
    ):
        world.generate(1, "quickstart", "--max-problems", 1, *CLUSTER)
    assert groups_of(world, 1) == []
