"""Runs Python that a model wrote, away from everything that matters, and judges what comes out.

The program's process only gives outputs; this process compares them. Expected values never go in. Three levels of
isolation, the strongest that works is taken:

``bubblewrap``
    Each program is the first process of a PID namespace of its own, in a file system that has the interpreter's
    library read-only and 16 MiB of memory to write to; no network, IPC, ``/proc``, environment or inherited
    descriptor; a user of its own where we are root; no capabilities; limits on memory, processor time, threads,
    files and output; a list of refused system calls (on x86_64 and aarch64).
    Does NOT protect from: faults of the kernel, side channels (time, caches), the load of one busy core for the
    time limit.
``namespaces``
    The same walls, put up by this package itself where bubblewrap is missing and the kernel lets us.
    Does NOT protect from: what the first does not, and mistakes here that bubblewrap's years have found in it.
``rlimits``
    Limits and refused system calls only (without the latter there is no such level): no processes, signals to
    others, sockets or changes of files.
    Does NOT protect from: reading any file that its user may read. Where we are not root that user is ours, and
    ``/proc`` may show it this process's memory too, expected values with it. Where we are root and the interpreter's
    library is closed to others, that user is root without capabilities.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.sandbox.host import Level, SandboxError
from engine.sandbox.levels import Sandbox, shared_sandbox, strongest_level
from engine.sandbox.test_cases import (
    AssertTest,
    CallTest,
    Limits,
    Report,
    Status,
    StdinTest,
    Test,
)

__all__ = [
    "AssertTest",
    "CallTest",
    "Level",
    "Limits",
    "Report",
    "Sandbox",
    "SandboxError",
    "Status",
    "StdinTest",
    "Test",
    "isolation_level",
    "run_tests",
    "shared_sandbox",
]


def run_tests(
    program: str,
    tests: Sequence[Test],
    *,
    setup: str = "",
    entry_point: str | None = None,
    limits: Limits | None = None,
    stop_early: bool = False,
) -> Report:
    """``Sandbox.run_tests`` of the process-wide sandbox."""
    return shared_sandbox().run_tests(
        program, tests, setup=setup, entry_point=entry_point, limits=limits, stop_early=stop_early
    )


def isolation_level() -> Level:
    """How programs are isolated here. The module's docstring says what each level leaves open."""
    return strongest_level()
