"""One index and the validators for all tests of a process. They need Node.js and its packages (make phaser)."""

import fcntl
from contextlib import closing

import pytest

from engine.errors import ConfigurationError
from engine.tasks.phaser.validation.api_index import ApiIndex
from engine.tasks.phaser.validation.browser import find_chromium
from engine.tasks.phaser.validation.node_setup import build_api_index, find_node
from engine.tasks.phaser.validation.validator import PhaserValidator


@pytest.fixture(scope="session")
def node():
    """The Node.js of this machine; tests are skipped with the reason where it is missing."""
    try:
        return find_node()
    except ConfigurationError as error:
        pytest.skip(error.what)


@pytest.fixture(scope="session")
def api_index(node, tmp_path_factory):
    """The index, built once for all processes of this test run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / "phaser-api-index"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "meta.json").exists():
            build_api_index(folder)
    return ApiIndex.load(folder / "phaser_api.jsonl")


@pytest.fixture(scope="session")
def validator(api_index):
    """A validator with one worker, which runs programs; tests are skipped where Chromium is missing."""
    try:
        find_chromium()
    except ConfigurationError as error:
        pytest.skip(error.what)
    with closing(PhaserValidator(api_index, workers=1)) as opened:
        yield opened


@pytest.fixture(scope="session")
def reader(api_index):
    """A validator with one worker, which only reads programs."""
    with closing(PhaserValidator(api_index, workers=1, runs=False)) as opened:
        yield opened
