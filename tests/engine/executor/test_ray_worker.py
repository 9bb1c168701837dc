"""Parts of the executor on Ray, without a cluster."""

from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from engine.errors import InputError
from tests.support.ray_work import Squares

pytest.importorskip("ray", reason="Ray is not installed (make ray)")
pytestmark = pytest.mark.ray

from engine.executor.ray_pool import RayPool, _Actor  # noqa: E402 - needs Ray


@pytest.mark.parametrize(("call_s", "done"), [(0.0, 1), (1000.0, 4)])
def test_a_worker_returns_what_it_has_when_the_time_of_a_call_is_over(tmp_path, monkeypatch, call_s, done):
    monkeypatch.setattr("engine.executor.ray_pool._CALL_S", call_s)
    worker = _Actor(str(tmp_path), Squares(), 0)
    worker.open()
    results, seconds = worker.run([2, -3, 4, 5])
    assert len(results) == done
    assert results[0] == (4, 0)
    assert seconds > 0
    if done == 4:
        assert isinstance(results[1], InputError)
        assert results[2:] == [(16, 0), (25, 0)]


def test_a_worker_works_in_the_folder_of_the_command_where_its_node_has_it(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    worker = _Actor(str(tmp_path), Squares(), 0)
    assert Path.cwd() == tmp_path
    assert worker.open() is None
    assert worker.run([3])[0] == [(9, 0)]
    _Actor(str(tmp_path / "absent"), Squares(), 1)
    assert Path.cwd() == tmp_path


def test_the_end_of_a_pool_also_ends_the_items_that_a_worker_returned_undone():
    pool = RayPool(Squares(), 1)
    pool._thread.start()
    new, returned = pool.submit(1), pool.submit(2)
    returned.set_running_or_notify_cancel()  # as when it was given to a worker
    pool.__exit__()
    for future in (new, returned):
        with pytest.raises(CancelledError):
            future.result(timeout=10)
