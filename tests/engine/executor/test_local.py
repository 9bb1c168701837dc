"""Work on this machine: in a thread of this process, or in processes."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.errors import InputError
from engine.executor.local import LocalExecutor


@dataclass(frozen=True)
class Doubling:
    """Opens workers that double numbers and leave a file when they are closed."""

    folder: Path
    refuses: bool = False

    def open(self, number):
        if self.refuses:
            raise InputError("The model cannot be opened", fix="Give another one.")
        return Doubler(self.folder / str(number))


@dataclass(frozen=True)
class Doubler:
    mark: Path

    def run(self, item):
        return 2 * item

    def close(self):
        self.mark.touch()


@pytest.mark.parametrize("workers", [1, 2])
def test_items_are_worked_on_and_workers_are_closed(tmp_path, workers):
    with LocalExecutor().pool(Doubling(tmp_path), workers) as pool:
        assert [future.result() for future in [pool.submit(item) for item in range(6)]] == [0, 2, 4, 6, 8, 10]
    assert 1 <= len(list(tmp_path.iterdir())) <= workers


@pytest.mark.parametrize("workers", [1, 2])
def test_why_a_worker_cannot_be_opened_is_said(tmp_path, workers):
    with (
        pytest.raises(InputError, match="The model cannot be opened"),
        LocalExecutor().pool(Doubling(tmp_path, refuses=True), workers) as pool,
    ):
        pool.submit(1).result()
