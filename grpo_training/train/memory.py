"""Memory of a training: settings that change nothing else, the error when it is full, and memory that is free again."""

from __future__ import annotations

import contextlib
import ctypes
import resource
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from engine.errors import ConfigurationError, first_line

if TYPE_CHECKING:
    import torch

_ROWS = ("per_device_train_batch_size", "gradient_accumulation_steps")
MEMORY_SETTINGS = (*_ROWS, "gradient_checkpointing", "padding_free", "share_prompts", "logprob_chunk_size")
"""Offline and supervised training take the same steps with other values of these, if a step has as many rows."""

_SMALL_CHUNK = 128
"""Positions whose logits need little memory, with any vocabulary."""
_LARGE_KIB = 2 << 20
"""A process whose memory has reached this many KiB returns what it frees."""
_FULL = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Texts of errors about full memory that have no type of their own."""


def rows_of_a_step(settings: Mapping[str, Any]) -> int:
    """The rows of a process in an optimizer step."""
    return int(settings[_ROWS[0]]) * int(settings[_ROWS[1]])


def return_free_memory(device: torch.device) -> None:
    """After a micro-batch on a CPU, give freed memory back to the system, where the C library keeps it: glibc.

    Tensors of changing shapes leave holes that glibc hardly uses again: without this, a training of rows of 140 to 440
    tokens took 2.5 to 7 GB more with each micro-batch, until the system killed it. A process that has never been large
    keeps its memory, as taking it anew costs time.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if device.type == "cpu" else None
    if trim is not None and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > _LARGE_KIB:
        trim(0)


def is_memory_full(error: Exception) -> bool:
    """Whether an error is a failed allocation. Only torch's own allocator on a GPU has a type for it."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(one in str(error) for one in _FULL)
    )


@contextlib.contextmanager
def explained_full_memory(settings: Mapping[str, Any]) -> Iterator[None]:
    """An allocation that fails inside the block ends it with the settings that need less.

    Args:
        settings: the fields of the configuration of the training that runs in the block.

    Raises:
        ConfigurationError: the memory of the device is full.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_memory_full(error):
            raise
        raise ConfigurationError(
            f"The memory is full: {first_line(error)}"[:300],
            why=f"A forward pass has {settings[_ROWS[0]]} rows.",
            fix=_advice(settings),
        ) from error


def _advice(settings: Mapping[str, Any]) -> str:
    """Flags that need less memory: first those with which the training continues from its last checkpoint."""
    flags = []
    size, passes = (settings[name] for name in _ROWS)
    if size % 2 == 0:
        flags.append(f"--per-device-train-batch-size {size // 2} --gradient-accumulation-steps {passes * 2}")
    if not settings["gradient_checkpointing"]:
        flags.append("--gradient-checkpointing")
    if settings["logprob_chunk_size"] > _SMALL_CHUNK:
        flags.append(f"--logprob-chunk-size {_SMALL_CHUNK}")
    same, others = ", ".join(flags), "shorter rows (--max-completion-length), --load-in-4bit or a smaller model"
    if settings["mode"] == "online":
        return f"Needs less: {same}. Then pass --fresh or another --output-dir." if same else f"Needs less: {others}."
    if not same:
        return f"Needs less, with --fresh: {others}."
    return (
        f"The same training goes on from its last checkpoint with what needs less: {same}. With --fresh also {others}."
    )
