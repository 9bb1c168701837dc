import multiprocessing
import os
import signal
import socket
import sys
import types
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate")
from accelerate.state import AcceleratorState, PartialState  # noqa: E402

from engine.errors import ConfigurationError  # noqa: E402
from grpo_training.cli.entry import run_command  # noqa: E402
from grpo_training.train import processes  # noqa: E402
from grpo_training.train import run as train  # noqa: E402
from grpo_training.train.config import GRPOTrainingConfig  # noqa: E402
from grpo_training.train.processes import exit_code_of_the_first, join_processes, local_share  # noqa: E402


def test_one_process_joins_nobody_and_tells_itself(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(accelerate, "PartialState", None)
    join_processes()
    assert exit_code_of_the_first(3) == 3


def test_processes_that_do_not_form_one_group_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(accelerate, "PartialState", lambda **_: types.SimpleNamespace(num_processes=1))
    with pytest.raises(ConfigurationError, match="2 processes were started, but 1 form a group"):
        join_processes()


@pytest.mark.parametrize(("number", "parts"), [(1, 3), (2, 4), (2, 5), (3, 1)])
def test_every_process_computes_as_many_parts_and_each_part_counts_once(number, parts):
    shares = [
        local_share(list(range(parts)), types.SimpleNamespace(num_processes=number, process_index=process))
        for process in range(number)
    ]
    assert len({len(share) for share in shares}) == 1
    assert sorted(part for share in shares for part, counts in share if counts) == list(range(parts))


def test_no_parts_are_no_work():
    assert local_share([], types.SimpleNamespace(num_processes=2, process_index=0)) == []


class Data:
    groups = validation = ()
    report = ""

    def __init__(self, *teacher):
        self.teacher = teacher


def rank_of_a_training(rank, port, folder, where):
    """What a launcher starts: the training command, with stand-ins for the reading of the data and for the steps."""
    os.environ |= {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": port, "RANK": rank, "LOCAL_RANK": rank}
    for state in (PartialState, AcceleratorState):
        state._reset_state()  # other tests may have made one before the fork
    for stream, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / f"{name}{rank}", os.O_CREAT | os.O_WRONLY), stream)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")

    def fail(place):
        if (place, rank) == (where, "0"):
            raise OSError(28, "No space left on device", "/big/disk")

    def read(config):
        fail("reading")
        return Data(rank) if where == "other data" else Data()

    def steps(*_):
        fail("saving")
        if where == "saving alone":
            if rank == "1":
                os.kill(os.getpid(), signal.SIGKILL)
            processes._HEAR = timedelta(seconds=1)  # how long the first one waits for it
            raise OSError(28, "No space left on device", "/big/disk")
        if (where, rank) in (("killed", "0"), ("other killed", "1")):
            os.kill(os.getpid(), signal.SIGKILL)
        if where == "other killed":
            PartialState().wait_for_everyone()
        exit_code_of_the_first(None)  # the other one waits here for the first

    sys.modules["grpo_training.train.data.training_data"] = types.SimpleNamespace(load_training_data=read)
    sys.modules["grpo_training.train.offline.loop"] = types.SimpleNamespace(train_offline=steps)
    train.print_plan = train.offline_plan = lambda *_: None
    config = GRPOTrainingConfig(model_name_or_path="m", dataset_path="d", output_dir=folder / "run")
    run_command(lambda: train.train_grpo(config))


def run_two_processes(folder, where, started="01"):
    """The exit codes of both processes, and what they wrote to stderr; ``started``: those that are started at all."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    fork = multiprocessing.get_context("fork")  # torch is imported already
    ranks = [fork.Process(target=rank_of_a_training, args=(rank, port, folder, where), daemon=True) for rank in started]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(60)
    return [process.exitcode for process in ranks], [(folder / f"err{rank}").read_text() for rank in started]


@pytest.mark.parametrize("where", ["reading", "saving"])
def test_if_the_first_process_fails_the_other_prints_its_error_and_ends(tmp_path, where):
    codes, (told, heard) = run_two_processes(tmp_path, where)
    assert codes == [1, 1]
    assert "No space left on device" in told
    assert heard == "Process 0 failed: [Errno 28] No space left on device: '/big/disk'\n"


def test_if_the_first_process_is_killed_the_other_says_so_and_ends(tmp_path):
    codes, (_, heard) = run_two_processes(tmp_path, "killed")
    assert codes == [-signal.SIGKILL, 1]
    assert "The first process ended without a message; it was probably killed." in heard
    assert "Traceback" not in heard


def test_if_another_process_is_killed_the_first_one_says_so(tmp_path):
    codes, (output, _) = run_two_processes(tmp_path, "other killed")
    assert codes == [1, -signal.SIGKILL]
    assert "The exchange with another process broke off" in output
    assert "That process was probably killed" in output
    assert "Traceback" not in output


def test_processes_that_have_read_different_samples_do_not_start(tmp_path):
    """As from a file of rollouts that grows while they start."""
    codes, said = run_two_processes(tmp_path, "other data")
    assert codes == [1, 1]
    assert all("The processes of this training have read different samples" in text for text in said)
    assert not (tmp_path / "run").exists()


def test_the_first_process_shows_its_own_error_also_if_the_other_is_gone(tmp_path):
    codes, (told, _) = run_two_processes(tmp_path, "saving alone")
    assert codes == [1, -signal.SIGKILL]
    assert "No space left on device" in told


@pytest.mark.parametrize(("started", "missing"), [("0", "1"), ("1", "0")])
def test_a_process_that_never_starts_is_named(tmp_path, monkeypatch, started, missing):
    """Without a launcher nobody else notices."""
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    monkeypatch.setattr(processes, "_START", timedelta(seconds=0.5))
    codes, [said] = run_two_processes(tmp_path, "nowhere", started)
    assert codes == [2]
    assert f"✗ Of the 2 processes of this training these are missing (RANK): {missing}\n" in said
    assert "0:00:00.5" in said


def test_a_process_hears_from_the_first_one_which_others_are_missing(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    store = torch.distributed.HashStore()
    store.set("missing", "2, 3")
    with pytest.raises(ConfigurationError, match=r"Of the 4 processes .* missing \(RANK\): 2, 3\n"):
        processes._check_in(store, 1)


def test_a_port_that_another_program_uses_is_named(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "localhost"), ("MASTER_PORT", port)):
            monkeypatch.setenv(name, value)
        with pytest.raises(ConfigurationError, match=f"cannot listen at localhost:{port}") as raised:
            join_processes()
    assert "address already in use" in raised.value.why
