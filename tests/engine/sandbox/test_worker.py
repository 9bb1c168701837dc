import threading
import time

import pytest

from engine.records import Outcome
from engine.sandbox import worker
from engine.sandbox.worker import WorkerPool


@pytest.fixture(scope="module")
def pool():
    pool = WorkerPool(size=2, memory_mb=1024, packages=("tests.support.",))
    yield pool
    pool.close()


def test_value_comes_back(pool):
    assert pool.run("tests.support.worker_jobs:echo", {"a": [1, "ü"]}).value == {"a": [1, "ü"]}


def test_error_is_data(pool):
    result = pool.run("tests.support.worker_jobs:fail", "boom")
    assert result.outcome is Outcome.MODEL_FAULT
    assert "boom" in result.error


def test_a_worker_that_does_not_start_says_nothing_about_the_job(monkeypatch):
    monkeypatch.setattr(worker, "_COLD_START_S", 0.0)
    fresh = WorkerPool(size=1, packages=("tests.support.",))
    result = fresh.run("tests.support.worker_jobs:echo", 0)
    assert (result.outcome, result.error) == (Outcome.INFRA_FAULT, "the worker did not start")
    monkeypatch.undo()
    assert fresh.run("tests.support.worker_jobs:echo", 0).outcome is Outcome.OK
    fresh.close()


def test_a_job_that_never_ends_is_killed_and_the_pool_still_works(pool):
    pool.run("tests.support.worker_jobs:echo", 0)
    start = time.monotonic()
    result = pool.run("tests.support.worker_jobs:spin", None, timeout_s=0.3)
    assert result.outcome is Outcome.VERIFIER_TIMEOUT
    assert time.monotonic() - start < 30
    assert pool.run("tests.support.worker_jobs:echo", 7).value == 7


def test_memory_is_bounded(pool):
    result = pool.run("tests.support.worker_jobs:hoard", None, timeout_s=20)
    assert result.outcome is Outcome.MODEL_FAULT
    assert pool.run("tests.support.worker_jobs:echo", 7).value == 7


def test_works_from_any_thread(pool):
    values: list[int] = []
    threads = [
        threading.Thread(target=lambda i=i: values.append(pool.run("tests.support.worker_jobs:echo", i).value))
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(values) == list(range(8))


def test_only_functions_of_the_given_packages_are_run(pool):
    with pytest.raises(ValueError, match="not a function of"):
        pool.run("os:system", "true")
    with pytest.raises(ValueError, match=r"not a function of engine\."):
        WorkerPool().run("tests.support.worker_jobs:echo", 1)
