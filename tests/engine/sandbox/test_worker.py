import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from engine.records import Outcome
from engine.sandbox import worker
from engine.sandbox.worker import KillablePool, WorkResult
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def pool():
    pool = KillablePool(size=2, memory_mb=1024)
    yield pool
    pool.close()


def test_value_comes_back(pool):
    assert pool.run("tests.support.worker_jobs:echo", {"a": [1, "ü"]}).value == {"a": [1, "ü"]}


def test_error_is_data(pool):
    result = pool.run("tests.support.worker_jobs:fail", "boom")
    assert result.outcome is Outcome.MODEL_FAULT
    assert "boom" in result.error


def test_a_worker_that_does_not_start_says_nothing_about_the_job():
    fresh = KillablePool(size=1, start_timeout_s=0.0)
    result = fresh.run("tests.support.worker_jobs:echo", 0)
    assert result == WorkResult(Outcome.INFRA_FAULT, error="the worker did not start: killed after 0 s")
    fresh.close()


def test_a_worker_that_dies_at_its_start_says_nothing_about_the_job(monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("true"))
    fresh = KillablePool(size=1)
    assert fresh.run("tests.support.worker_jobs:echo", 0).outcome is Outcome.INFRA_FAULT
    monkeypatch.undo()
    assert fresh.run("tests.support.worker_jobs:echo", 0).outcome is Outcome.OK
    fresh.close()


@pytest.fixture
def one_worker():
    pool = KillablePool(size=1)
    yield pool
    pool.close()


def test_the_import_of_a_module_does_not_count_as_time_of_a_job(one_worker):
    assert one_worker.run("tests.support.slow_to_import:took_s", None, timeout_s=1.5).value >= 2


def test_a_job_that_never_ends_is_killed_and_the_pool_still_works(pool):
    pool.run("tests.support.worker_jobs:echo", 0)
    start = time.monotonic()
    result = pool.run("tests.support.worker_jobs:spin", None, timeout_s=0.3)
    assert result.outcome is Outcome.VERIFIER_TIMEOUT
    assert time.monotonic() - start < 30
    assert pool.run("tests.support.worker_jobs:echo", 7).value == 7


def test_time_in_which_a_job_does_not_run_does_not_count(pool, monkeypatch):
    assert pool.run("tests.support.worker_jobs:nap", 0.6, timeout_s=0.2).value == "awake"
    monkeypatch.setattr(worker, "WALL_PER_CPU", 0.01)
    result = pool.run("tests.support.worker_jobs:nap", 60, timeout_s=30)
    assert result == WorkResult(Outcome.VERIFIER_TIMEOUT, error="killed after 0.3 s")


def test_time_in_which_the_process_is_stopped_does_not_count():
    code = (
        "from engine.sandbox.worker import KillablePool; pool = KillablePool(size=1); "
        "pool.run('tests.support.worker_jobs:echo', 0); print('ready', flush=True); "
        "print(pool.run('tests.support.worker_jobs:nap', 0.5, timeout_s=0.075).value)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        process.send_signal(signal.SIGCONT)
        assert process.stdout.read() == "awake\n"


def test_libraries_compute_in_one_thread_so_that_processor_time_does_not_depend_on_the_machine(pool):
    assert pool.run("tests.support.worker_jobs:threads", None, timeout_s=20).value == 1


def test_a_worker_loads_no_large_package_before_a_job_needs_it(pool):
    jobs = ["engine.answers.symbolic", "engine.mathematics.solver"]
    assert pool.run("tests.support.worker_jobs:loaded_with", jobs, timeout_s=20).value == []


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
