"""The values of ``--executor``, and the executor of this machine."""

import sys

import pytest

from engine.errors import ConfigurationError, IncompleteRunError, InputError
from engine.executor.choice import check_executor, open_executor
from engine.executor.local import LocalExecutor
from tests.support.ray_work import Squares


@pytest.mark.parametrize("name", ["process", "ray", "ray:10.0.0.1:6379"])
def test_names_of_executors(name):
    assert check_executor(name) == name


@pytest.mark.parametrize("name", ["", "dask", "process:2", "ray:"])
def test_other_names_are_refused(name):
    with pytest.raises(InputError, match="Unknown executor"):
        check_executor(name)


def test_a_ray_client_address_is_refused_with_what_to_do_instead():
    with pytest.raises(InputError, match="Ray Client") as raised:
        check_executor("ray:ray://10.0.0.1:10001")
    assert "ray start" in raised.value.fix


def test_without_ray_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "engine.executor.ray_cluster", raising=False)
    with pytest.raises(ConfigurationError, match="needs Ray") as raised:
        open_executor("ray")
    assert "make ray" in raised.value.fix


def test_a_pool_of_this_machine(tmp_path):
    gate = tmp_path / "gate"
    with LocalExecutor().pool(Squares(gate=str(gate)), 1) as pool:
        assert pool.submit(7).result(60)[0] == 49
        with pytest.raises(InputError):
            pool.submit(-1).result(60)
    assert (tmp_path / "gate.closed0").exists()


def test_a_process_that_ends_is_reported():
    with LocalExecutor().pool(Squares(deadly=3), 2) as pool:
        with pytest.raises(IncompleteRunError, match="A worker process ended"):
            pool.submit(3).result(60)
        with pytest.raises(IncompleteRunError):
            pool.submit(4).result(60)
