"""Several processes of one training, as torchrun and ``accelerate launch`` start them."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from engine.errors import ConfigurationError
from grpo_training.cli.terminal_text import say
from grpo_training.runs.stop_request import StopRequest

if TYPE_CHECKING:
    from accelerate import Accelerator

ItemT = TypeVar("ItemT")

_DIVIDED = {"ACCELERATE_USE_FSDP": "FSDP", "ACCELERATE_USE_DEEPSPEED": "DeepSpeed"}


def is_first_process() -> bool:
    """Whether this process writes the run directory."""
    return os.environ.get("RANK", "0") == "0"


def say_once(text: str) -> None:
    """Print a text, in the first of several processes only."""
    if is_first_process():
        say(text)


def number_of_processes() -> int:
    """The number of processes that were started together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def join_processes() -> None:
    """Form one group of all processes that were started together. Nothing happens in a single one.

    Raises:
        ConfigurationError: the configuration of accelerate divides the model among the processes.
    """
    for variable, name in _DIVIDED.items():
        if os.environ.get(variable, "false").lower() in ("1", "true"):
            raise ConfigurationError(
                f"{name} is not supported",
                why="Checkpoints and exports are written from the whole model of the first process.",
                fix="Use grpo_training/configs/accelerate/ddp_8gpu.yaml, or torchrun.",
            )
    if number_of_processes() > 1:
        import torch
        from accelerate import PartialState

        # Without cpu=True, accelerate ignores the processes that torchrun starts on a machine without an accelerator.
        atexit.register(PartialState(cpu=not torch.accelerator.is_available()).destroy_process_group)


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


def agreed(stop: StopRequest, number: int) -> int | None:
    """The signal that any of ``number`` processes has received, so that all stop at the same step."""
    if number > 1:
        from accelerate.utils import gather_object

        stop.number = next((signal for signal in gather_object([stop.number]) if signal is not None), None)
    return stop.number


def local_share(items: Sequence[ItemT], accelerator: Accelerator) -> list[tuple[ItemT, bool]]:
    """The items that this process computes, and whether each counts.

    All processes get as many, because DDP reduces the gradients of all of them together. Where the items do not divide
    evenly, a process gets the first item again, which does not count there.
    """
    number: int = accelerator.num_processes
    share = [(item, True) for item in items[accelerator.process_index :: number]]
    missing = -(-len(items) // number) - len(share)
    return share + [(item, False) for item in items[:1]] * missing
