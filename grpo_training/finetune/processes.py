"""Several processes of one training, as torchrun and ``accelerate launch`` start them: one group that ends together."""

from __future__ import annotations

import os

from engine.errors import ConfigurationError


def is_first_process() -> bool:
    """Whether this process writes the run directory."""
    return os.environ.get("RANK", "0") == "0"


def number_of_processes() -> int:
    """The number of processes that were started together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def join_processes() -> None:
    """Form one group of all processes that were started together. Nothing happens in a single one.

    Raises:
        ConfigurationError: they do not form one group; each would train alone.
    """
    if number_of_processes() == 1:
        return
    import torch
    from accelerate import PartialState

    # Without cpu=True, accelerate ignores the processes that torchrun starts on a machine without an accelerator.
    joined = PartialState(cpu=not torch.accelerator.is_available()).num_processes
    if joined != number_of_processes():
        raise ConfigurationError(
            f"{number_of_processes()} processes were started, but {joined} form a group",
            why="Each group would train a model of its own and write the same directory.",
            fix="Start them with torchrun or accelerate launch, or start a single process.",
        )


def told_by_the_first(exit_code: int | None) -> int | None:
    """What the first process passes here, in every process; it waits until all have called it.

    Args:
        exit_code: the exit code of a run that ends here; None: it goes on. The others' value is ignored.
    """
    if number_of_processes() == 1:
        return exit_code
    from accelerate.utils import broadcast_object_list

    told: list[int | None] = broadcast_object_list([exit_code], from_process=0)
    return told[0]
