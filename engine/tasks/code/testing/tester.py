"""Runs programs against their tests in the sandbox."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Sequence

from engine.cores import usable_cores
from engine.errors import InputError
from engine.records import Outcome
from engine.sandbox.levels import Level
from engine.sandbox.pool import ProcessPool
from engine.sandbox.program_process import ProgramLimits
from engine.sandbox.zygote_process import SandboxError, Zygote, level_for_rewards
from engine.tasks.code.test_cases import CodeTest
from engine.tasks.code.testing.report import Report, Status
from engine.tasks.code.testing.test_runner import TestRunner


class ProgramTester:
    """Runs programs against tests. Works from any thread.

    Args:
        size: programs that run at the same time; None is one per core.
        level: the level of isolation; None is the strongest that works on this machine, if rewards are permitted on it.

    Raises:
        ConfigurationError: no level of isolation works on this machine, or only one that is not permitted.
    """

    def __init__(self, size: int | None = None, level: Level | None = None) -> None:
        self.level: Level = level or level_for_rewards()
        self.size = size or usable_cores()
        self.owner = os.getpid()
        start = functools.partial(Zygote, self.level)
        self._programs, self._test_code = ProcessPool(self.size, start), ProcessPool(self.size, start)

    def run(
        self,
        program: str,
        tests: Sequence[CodeTest],
        *,
        entry_point: str | None = None,
        limits: ProgramLimits | None = None,
        stop_early: bool = False,
    ) -> Report:
        """Run a program against its tests.

        Args:
            program: Python source; untrusted.
            tests: at least one.
            entry_point: a name that the program must define (not for tests on standard input).
            limits: of time, memory and output.
            stop_early: stop at the first test that does not pass; the rest are ``not_run``.

        Raises:
            InputError: there are no tests. The program itself never causes an error.
        """
        if not tests:
            raise InputError(
                "There is no test to run a program against",
                why="Without tests every program would pass.",
                fix="Leave problems without tests out when the dataset is loaded.",
            )
        limits = limits or ProgramLimits()
        runner = TestRunner(self._programs, self._test_code, program, entry_point, limits, stop_early)
        try:
            statuses = runner.statuses(tests)
        except SandboxError as error:
            return Report(Outcome.INFRA_FAULT, (Status.INFRA_ERROR,) * len(tests), str(error))
        outcome = Outcome.VERIFIER_TIMEOUT if Status.TIMEOUT in statuses else Outcome.OK
        return Report(outcome, statuses, "" if set(statuses) == {Status.PASS} else runner.detail)

    def pids(self) -> list[int]:
        """The process ids of the zygotes that are running."""
        return [zygote.pid for pool in (self._programs, self._test_code) for zygote in pool.running()]

    def close(self) -> None:
        """Kill all processes. The tester may be used again afterwards."""
        self._programs.close()
        self._test_code.close()


_shared: ProgramTester | None = None
_guard = threading.Lock()


def shared_tester() -> ProgramTester:
    """The tester of this process; created at the first call, and again in a forked child."""
    global _shared
    with _guard:
        if _shared is None or _shared.owner != os.getpid():
            _shared = ProgramTester()
        return _shared
