"""A worker of the executor on Ray, without a cluster."""

from pathlib import Path

import pytest

from tests.support.ray_work import Squares

pytestmark = pytest.mark.ray


def test_a_worker_works_in_the_folder_of_the_command_where_its_node_has_it(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed (make ray)")
    from engine.executor.ray_pool import _Actor

    monkeypatch.chdir("/")
    worker = _Actor(str(tmp_path), Squares(), 0)
    assert Path.cwd() == tmp_path
    assert worker.open() is None
    assert worker.run(3) == (9, 0)
    _Actor(str(tmp_path / "absent"), Squares(), 1)
    assert Path.cwd() == tmp_path
