"""Several processes of one training, as torchrun and ``accelerate launch`` start them: one group that ends together."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from engine.errors import ConfigurationError, InputError, ScaffoldError

if TYPE_CHECKING:
    from accelerate import Accelerator

PartT = TypeVar("PartT")

_TIMEOUT = timedelta(hours=6)
"""How long a process waits for the others, which may be writing a model. A failure is reported at once."""
_START = timedelta(minutes=10)
"""How long processes wait for one that has not started. Launchers such as torchrun notice it themselves."""
_FAILED, _LEFT, _GONE = "failed", "left", "gone"
_POLL_S, _SHORT_POLL_S, _MOMENT_S, _HEAR = 0.2, 0.01, 1.0, timedelta(seconds=60)
_KILLED = "The first process ended without a message; it was probably killed."
_blocks = itertools.count()


def is_first_process() -> bool:
    """Whether this process writes the run directory."""
    return os.environ.get("RANK", "0") == "0"


def number_of_processes() -> int:
    """The number of processes that were started together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def join_processes() -> None:
    """Form one group of all processes that were started together. Nothing happens in a single one.

    Raises:
        ConfigurationError: some have not started in time; or they do not form one group, and each would train alone.
    """
    if number_of_processes() == 1:
        return
    import torch
    from accelerate import PartialState

    meeting = _meet()  # the group uses the same port
    # Without cpu=True, accelerate ignores the processes that torchrun starts on a machine without an accelerator.
    joined = PartialState(cpu=not torch.accelerator.is_available(), timeout=_TIMEOUT).num_processes
    del meeting
    if joined != number_of_processes():
        raise ConfigurationError(
            f"{number_of_processes()} processes were started, but {joined} form a group",
            why="Each group would train a model of its own and write the same directory.",
            fix="Start them with torchrun or accelerate launch, or start a single process.",
        )
    atexit.register(_leave)


def _leave() -> None:
    """Close the group at the end of the process: a thread of it that still runs then aborts the process."""
    import torch

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _meet() -> Any:
    """Wait until all processes have started, where no launcher watches them. Returns what keeps their port open.

    Raises:
        ConfigurationError: some have not.
    """
    rank, address, port = (os.environ.get(name) for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"))
    if not rank or not address or not port or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return None
    from torch.distributed import PrefixStore, TCPStore

    place = f"{address}:{port} (MASTER_ADDR and MASTER_PORT)"
    options = {"is_master": rank == "0", "timeout": _START, "wait_for_workers": False, "multi_tenant": True}
    try:
        store = TCPStore(address, int(port), **options)
    except RuntimeError as error:  # of the network
        if rank == "0":
            why = str(error).partition("\n")[0]
            raise ConfigurationError(f"The first process cannot listen at {place}", why=why) from error
        raise _missing("0", f"Nothing has answered at {place} for {_START}.") from error
    _check_in(PrefixStore("scaffold_grpo/start", store), int(rank))
    return store


def _check_in(store: Any, rank: int) -> None:
    """Wait until all processes have called this. The first one decides which are missing.

    Raises:
        ConfigurationError: some are missing.
    """
    others = {number: f"here/{number}" for number in range(1, number_of_processes())}
    if rank == 0:
        with contextlib.suppress(RuntimeError):  # the time is over
            store.wait(list(others.values()), _START)
        missing = ", ".join(str(number) for number, key in others.items() if not store.check([key]))
        store.set("missing", missing)
    else:
        try:
            store.set(others[rank], "1")
            store.wait(["missing"], 2 * _START)
            missing = store.get("missing").decode()
        except RuntimeError as error:
            raise _missing("0", "It ended before all others had started.") from error
    if missing:
        if rank == 0:
            time.sleep(_MOMENT_S)  # until the others have read it
        raise _missing(missing, f"The first process has waited for {_START}.")


def _missing(ranks: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"Of the {number_of_processes()} processes of this training these are missing (RANK): {ranks}",
        why=why,
        fix="See their output. All need the same WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and each its own RANK from 0 "
        "on; torchrun and accelerate launch set these.",
    )


def exit_code_of_the_first(exit_code: int | None) -> int | None:
    """What the first process passes here, in every process; it waits until all have called it.

    Args:
        exit_code: the exit code of a run that ends here; None: it goes on. The others' value is ignored.
    """
    if number_of_processes() == 1:
        return exit_code
    from accelerate.utils import broadcast_object_list

    received: list[int | None] = broadcast_object_list([exit_code], from_process=0)
    return received[0]


def check_same(facts: Mapping[str, Any]) -> None:
    """Refuse to train on what is not the same in all processes. They call it together.

    Each process reads the files itself: one that is written meanwhile, or differs between machines, would give each a
    training of its own.

    Args:
        facts: what this process has read, by a name for the message.

    Raises:
        InputError: they differ.
    """
    if number_of_processes() == 1:
        return
    from accelerate.utils import gather_object

    found = gather_object([dict(facts)])
    different = [name for name in facts if any(one[name] != facts[name] for one in found)]
    if different:
        raise InputError(
            f"The processes of this training have read different {' and '.join(different)}",
            why="A file was changed while they started, or it is not the same on all machines.",
            fix="Wait until nothing writes it, give all machines the same files, and run the same command again.",
        )


def local_share(parts: Sequence[PartT], accelerator: Accelerator) -> list[tuple[PartT, bool]]:
    """The parts that this process computes, and whether each counts.

    All processes get as many, because each forward and backward pass of a sharded model needs all of them. Where the
    parts do not divide evenly, a process gets the first part again, which does not count there.
    """
    if not parts:
        return []
    number = accelerator.num_processes
    own = [(part, True) for part in parts[accelerator.process_index :: number]]
    return own + [(parts[0], False)] * (-(-len(parts) // number) - len(own))


@contextlib.contextmanager
def shared_failure() -> Iterator[None]:
    """A failure inside the block ends all processes of the group: each of the others prints it and exits.

    Without this they would wait in their next exchange for a process that is gone, or end with the traceback of the
    communication library. The block ends in all processes together. Ctrl-C and SIGTERM reach all processes by
    themselves and are no failures.
    """
    if number_of_processes() == 1:
        yield
        return
    from torch.distributed import PrefixStore

    number = next(_blocks)  # several blocks, one after the other, share no keys
    watch = _FailureWatch(PrefixStore(f"scaffold_grpo/{number}", _own_connection()))
    try:
        yield
    except Exception as error:
        watch.tell(error)
        raise
    except BaseException:  # Ctrl-C
        watch.end()
        raise
    watch.leave()


@functools.cache
def _own_connection() -> Any:
    """The store of the group by a connection of its own. It is kept: one to a process that is gone takes hours."""
    from torch.distributed import distributed_c10d

    store = distributed_c10d._get_default_store().clone()
    store.set_timeout(_HEAR)
    return store


class _FailureWatch:
    """Waits in a thread for the failure of another process.

    Args:
        store: of the group, with a connection of its own, as the thread uses it beside the main thread.
    """

    def __init__(self, store: Any) -> None:
        self._store, self._ended = store, threading.Event()
        self._rank = int(os.environ.get("RANK", "0"))
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def tell(self, error: Exception) -> None:
        """Tell the others, unless another process failed before, and wait until they have heard it.

        Raises:
            ScaffoldError: another process is gone, so ``error`` is that of an exchange with it.
        """
        self.end()
        is_broken = _is_broken_exchange(error)
        reported = _broken_exchange(error) if is_broken else error
        code = reported.exit_code if isinstance(reported, ScaffoldError) else 1
        said = f"{code}\nProcess {self._rank} failed: {reported or type(reported).__name__}"
        try:
            self._store.compare_set(_FAILED, "", said)
        except RuntimeError:
            if not isinstance(error, ScaffoldError):
                raise ScaffoldError(_KILLED) from error
        with contextlib.suppress(RuntimeError):  # one that was killed does not hear it
            self._say_gone(wait=not is_broken)
        if is_broken:
            time.sleep(_MOMENT_S)  # until the others have heard it
            raise reported from error

    def leave(self) -> None:
        """Wait until no process can fail any more. The store may end with the first process, so it leaves last."""
        try:
            self._store.set(f"{_LEFT}/{self._rank}", "1")
            while not self._store.check(_keys(_LEFT)):
                time.sleep(_SHORT_POLL_S)
        except RuntimeError:
            self._thread.join()  # it ends this process
        self.end()
        with contextlib.suppress(RuntimeError):
            self._say_gone(wait=self._rank == 0)

    def end(self) -> None:
        """Stop waiting for failures."""
        self._ended.set()
        self._thread.join()

    def _say_gone(self, *, wait: bool) -> None:
        self._store.set(f"{_GONE}/{self._rank}", "1")
        if wait:
            self._store.wait(_keys(_GONE), _HEAR)

    def _watch(self) -> None:
        while not self._ended.wait(_POLL_S):
            try:
                if not self._store.check([_FAILED]):
                    continue
                code, _, said = self._store.get(_FAILED).decode().partition("\n")
            except RuntimeError:
                code, said = "1", _KILLED
            print(said, file=sys.stderr, flush=True)
            with contextlib.suppress(RuntimeError):
                self._say_gone(wait=self._rank == 0)
            os._exit(int(code))  # the main thread may wait in the communication library, which no exception ends


def _is_broken_exchange(error: Exception) -> bool:
    """Whether an error is that of the communication library about a process that is gone."""
    from torch.distributed import DistBackendError

    return isinstance(error, DistBackendError) or (isinstance(error, RuntimeError) and "gloo/transport" in str(error))


def _broken_exchange(error: Exception) -> ScaffoldError:
    return ScaffoldError(
        "The exchange with another process broke off",
        why=f"That process was probably killed, as the system does when memory runs out. {error}",
        fix="See the output of the other processes. The same command again continues from the last checkpoint.",
    )


def _keys(name: str) -> list[str]:
    return [f"{name}/{rank}" for rank in range(number_of_processes())]
