"""Shared by all tests: no socket leaves this machine, and real data is used where it is there."""

import gc
import os
import signal
import socket
import sys
from pathlib import Path

import hypothesis
import pytest

from engine.storage import append_log
from engine.tasks import registry

# No examples are too slow on a loaded machine; pytest-timeout ends those that hang.
hypothesis.settings.register_profile("tests", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("tests")

# The garbage collector would look again and again through what is imported: a sixth of the time of finding the tests.
gc.disable()
# Tests run side by side, one per core: more threads of torch only wait for each other. Read when torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Two processes cannot share one GPU, and a GPU draws other samples. CUDA_VISIBLE_DEVICES=0 runs the tests there.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
ROOT = Path(__file__).resolve().parents[1]
SHARED_DATA = Path(os.environ.get("SHARED_DATA", ROOT.parent / "shared" / "data"))


def _as_if_synced(fd):
    """No test cuts the power, and what a killed process has written is there without waiting for the disk."""
    os.fstat(fd)  # a descriptor that is not open is an error as before


os.fsync = append_log._sync = _as_if_synced

# Started in the background by a shell, we would ignore Ctrl-C, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_LOOPBACK = {"127.0.0.1", "::1", "localhost", "0.0.0.0"}


@pytest.fixture(autouse=True)
def _loopback_only(monkeypatch):
    connect = socket.socket.connect

    def guarded(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in _LOOPBACK:
            raise RuntimeError(f"a test tried to reach {address[0]}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(autouse=True, scope="module")
def _no_task_of_another_module():
    """Tasks that the tests of a module load are unknown to those of others in the same process."""
    before = dict(registry._registered)
    yield
    registry._registered.clear()
    registry._registered.update(before)


def shared_file(relative: str) -> Path:
    """A file of the real data; the test is skipped with a reason where it is not there."""
    path = SHARED_DATA / relative
    if not path.exists():
        pytest.skip(f"real data not found: {path} (set SHARED_DATA)")
    return path


@pytest.fixture(scope="session")
def recorded():
    """Recorded rollouts and fusions of a real model on AIME 2024, by name."""
    names = ("generator_1_rollouts", "generator_2_rollouts", "critic_results")
    return {name: shared_file(f"recorded/{name}.jsonl") for name in names}


@pytest.fixture(scope="session")
def aime2024():
    """The AIME 2024 problems as a JSONL file."""
    return shared_file("datasets/aime2024.jsonl")


def pytest_collection_modifyitems(items):
    """Run tests with a long time limit first: at the end, the other workers would wait for them."""
    items.sort(key=_time_limit, reverse=True)


def pytest_collection_finish():
    """Leave what was imported out of the garbage collector's later rounds, and write less that no test reads.

    That is the pages of most groups in a report, which has tests of its own, and PEFT's card of each checkpoint.
    """
    if "grpo_training.improve" in sys.modules:
        from grpo_training.improve import improved_folder

        improved_folder._GROUPS_IN_REPORT = 2
    if peft := sys.modules.get("peft"):
        peft.PeftModel.create_or_update_model_card = lambda *_: None
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # by default it takes a twentieth of the time of the tests
    gc.enable()


def _time_limit(item):
    marker = item.get_closest_marker("timeout")
    return marker.args[0] if marker is not None and marker.args else 0
