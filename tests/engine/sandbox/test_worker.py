import threading
import time

import pytest

from engine.records import Outcome
from engine.sandbox.worker import WorkerPool


@pytest.fixture(scope="module")
def pool():
    pool = WorkerPool(size=2, memory_mb=1024)
    yield pool
    pool.close()


def test_value_comes_back(pool):
    assert pool.run("engine.sandbox.worker_probe:echo", {"a": [1, "ü"]}).value == {"a": [1, "ü"]}


def test_error_is_data(pool):
    result = pool.run("engine.sandbox.worker_probe:fail", "boom")
    assert result.outcome is Outcome.MODEL_FAULT
    assert "boom" in result.error


def test_a_job_that_hangs_is_killed_and_the_pool_goes_on(pool):
    pool.run("engine.sandbox.worker_probe:echo", 0)
    start = time.monotonic()
    result = pool.run("engine.sandbox.worker_probe:spin", None, timeout_s=0.3)
    assert result.outcome is Outcome.VERIFIER_TIMEOUT
    assert time.monotonic() - start < 5
    assert pool.run("engine.sandbox.worker_probe:echo", 7).value == 7


def test_memory_is_bounded(pool):
    result = pool.run("engine.sandbox.worker_probe:hoard", None, timeout_s=20)
    assert result.outcome is Outcome.MODEL_FAULT
    assert pool.run("engine.sandbox.worker_probe:echo", 7).value == 7


def test_works_from_any_thread(pool):
    values: list[int] = []
    threads = [
        threading.Thread(target=lambda i=i: values.append(pool.run("engine.sandbox.worker_probe:echo", i).value))
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(values) == list(range(8))


def test_only_the_engine_is_called(pool):
    with pytest.raises(ValueError, match="not a function of the engine"):
        pool.run("os:system", "true")
