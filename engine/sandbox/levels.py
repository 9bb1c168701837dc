"""The sandbox as a whole: levels, pools and a memory of what was judged before."""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from engine.errors import ConfigurationError, InputError
from engine.records import Outcome
from engine.sandbox.host import LEVELS, Level, SandboxError, Zygote
from engine.sandbox.inside.wire import NotPlainError, encode
from engine.sandbox.judging import Judge
from engine.sandbox.pool import ZygotePool
from engine.sandbox.test_cases import Limits, Report, Status, Test

VERSION = 1
"""Stands in the key of every remembered result; a change of what a verdict means changes it."""


class Sandbox:
    """Runs programs against tests. Works from any thread.

    Args:
        size: programs that run side by side; None is one a core.
        level: the kind of isolation; None is the strongest that this machine has.
        remembered: results kept, by content.
        fail: asked before each program; where it returns a text, the sandbox fails with it. For tests.

    Raises:
        ConfigurationError: where the level, or any level, cannot be had here.
    """

    def __init__(
        self,
        size: int | None = None,
        level: Level | None = None,
        *,
        remembered: int = 10_000,
        fail: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.level: Level = level or strongest_level()
        self.size = size or os.cpu_count() or 1
        self.owner = os.getpid()
        self._programs = ZygotePool(self.size, self.level)
        self._testers = ZygotePool(self.size, self.level)
        self._results: OrderedDict[str, Report] = OrderedDict()
        self._remembered = remembered
        self._guard = threading.Lock()
        self.fail = fail
        atexit.register(self.close)

    def run_tests(
        self,
        program: str,
        tests: Sequence[Test],
        *,
        setup: str = "",
        entry_point: str | None = None,
        limits: Limits | None = None,
        stop_early: bool = False,
    ) -> Report:
        """Run a program against its tests.

        Args:
            program: Python source, of any origin.
            tests: at least one.
            setup: source that runs before the program, or after it where it uses what the program defines.
            entry_point: a name that the program must define (not for tests on standard input).
            limits: of time, memory and output.
            stop_early: stop at the first test that does not pass; the rest are ``not_run``.

        Raises:
            InputError: without tests, or with arguments that are no plain values. Never for what a program does.
        """
        if not tests:
            raise InputError(
                "There is no test to run a program against",
                why="Without tests every program would pass.",
                fix="Leave problems without tests out when the dataset is loaded.",
            )
        limits = limits or Limits()
        key = self._key([program, _contents(tests), setup, entry_point, tuple(vars(limits).values()), stop_early])
        with self._guard:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        judge = Judge(
            self._programs,
            self._testers,
            program,
            setup=setup,
            entry_point=entry_point,
            limits=limits,
            stop_early=stop_early,
        )
        try:
            if text := self.fail():
                raise SandboxError(text)
            statuses = judge.statuses(tests)
        except SandboxError as error:
            return Report(Outcome.INFRA_FAULT, (Status.INFRA_ERROR,) * len(tests), 0, len(tests), str(error))
        report = _report(statuses, judge.detail)
        if report.outcome is Outcome.OK:
            self._remember(key, report)
        return report

    def pids(self) -> list[int]:
        """The processes that wait for programs now."""
        return self._programs.pids() + self._testers.pids()

    def close(self) -> None:
        """Kill all processes. The sandbox may be used again afterwards."""
        if os.getpid() == self.owner:  # a forked child must not end its parent's processes
            self._programs.close()
            self._testers.close()

    def _key(self, content: list[object]) -> str:
        try:
            return hashlib.sha256(encode([VERSION, self.level, *content])).hexdigest()
        except NotPlainError as error:
            raise InputError("A test has arguments or an answer that are no plain values", why=str(error)) from None

    def _remember(self, key: str, report: Report) -> None:
        with self._guard:
            self._results[key] = report
            while len(self._results) > self._remembered:
                self._results.popitem(last=False)


def _contents(tests: Sequence[Test]) -> list[object]:
    return [[type(test).__name__, *vars(test).values()] for test in tests]


def _report(statuses: tuple[Status, ...], detail: str) -> Report:
    passed = sum(status is Status.PASS for status in statuses)
    outcome = Outcome.VERIFIER_TIMEOUT if Status.TIMEOUT in statuses else Outcome.OK
    return Report(outcome, statuses, passed, len(statuses), "" if passed == len(statuses) else detail)


_strongest: Level | None = None
_shared: Sandbox | None = None
_guard = threading.Lock()


def strongest_level() -> Level:
    """The strongest level that works here; found out by trying, once.

    Raises:
        ConfigurationError: where none does.
    """
    global _strongest
    if _strongest is None:
        reasons = []
        for level in LEVELS:
            try:
                Zygote(level).close()
            except SandboxError as error:
                reasons.append(str(error))
            else:
                _strongest = level
                return level
        raise ConfigurationError(
            "Programs cannot be run here: this machine has none of the sandbox's levels",
            why="; ".join(reasons),
            fix="Use Linux on x86_64 or aarch64, and install bubblewrap (apt install bubblewrap).",
        )
    return _strongest


def shared_sandbox() -> Sandbox:
    """The process-wide sandbox; made at the first call, and made anew in a forked child."""
    global _shared
    with _guard:
        if _shared is None or _shared.owner != os.getpid():
            _shared = Sandbox()
        return _shared
