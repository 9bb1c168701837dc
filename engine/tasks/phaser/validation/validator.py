"""The validator of Phaser programs: Node.js processes in the sandbox, and the verdict that is formed outside them.

A program is read by one process, which never runs it, and run in Chromium. The driver of the browser judges from
outside of the page, by pictures, errors and processor time. A process that fails is replaced before the next program.
"""

from __future__ import annotations

import re
import time
import zlib
from typing import Any

from engine.errors import ConfigurationError
from engine.records import Fault, Outcome
from engine.sandbox.command_process import CommandProcess, CommandStoppedError
from engine.sandbox.pool import ProcessPool
from engine.sandbox.zygote_process import SandboxError, Zygote, level_for_rewards
from engine.tasks.phaser.validation.api_index import ApiIndex
from engine.tasks.phaser.validation.browser import find_chromium, start_browser
from engine.tasks.phaser.validation.judging import StaticResult, runtime_gate, runtime_report, static_result, unparsed
from engine.tasks.phaser.validation.node_setup import NODE_FOLDER, find_node
from engine.tasks.phaser.validation.verdict import (
    STAGES,
    Gate,
    RuntimeOutcome,
    RuntimeReport,
    Validation,
    ValidationRequest,
)

_START_S = 120.0
_READING_S = 4.0
_BROWSER_S = 600.0  # the driver of the browser ends a run much earlier, by its processor time
_MEMORY_MB = 640
_MAX_CODE_BYTES = 200_000
_OUT_OF_MEMORY = ("heap out of memory", "Allocation failed")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_STATIC_FLAGS = ("--max-old-space-size=256", "--stack-size=1800", "--no-warnings")


class UnavailableError(Exception):
    """The validator failed, not the program."""


class PhaserValidator:
    """Validates programs, several at the same time.

    Checks all that the validator needs and starts its first processes.

    Args:
        index: the index of Phaser's API.
        workers: programs that are read, and programs that are run, at the same time.
        runs: whether programs will be run, which needs Chromium.

    Attributes:
        versions: what a verdict depends on besides the request and the code of this package: ``phaser``, ``node``,
            ``chromium`` (empty if nothing is run), and the SHA-256 of the index (``api_index``).

    Raises:
        ConfigurationError: Node.js, a package, Chromium or the sandbox is not as it must be; with the fix.
    """

    def __init__(self, index: ApiIndex, workers: int = 2, *, runs: bool = True) -> None:
        self._index, self._node = index, find_node()
        self._chromium = find_chromium() if runs else None
        self._level = level_for_rewards()
        self._readers = ProcessPool(workers, self._start_reader)
        self._browsers = ProcessPool(workers, self._start_browser)
        self.versions = {"phaser": index.phaser_version, "node": self._node.version, "api_index": index.sha256}
        self.versions["chromium"] = ""
        try:
            for pool in (self._browsers, self._readers) if runs else (self._readers,):
                with pool.member():
                    pass
        except (CommandStoppedError, SandboxError) as error:
            self.close()
            printed = error.printed.strip()[-500:] if isinstance(error, CommandStoppedError) else ""
            raise ConfigurationError(
                f"The validator's Node.js processes do not start: {error}",
                why=printed,
                fix=f"Run `make phaser`. The processes can read only {NODE_FOLDER} and the system's libraries.",
            ) from None

    def validate(self, request: ValidationRequest) -> Validation:
        """Validate a program. Safe to call from several threads; blocks while all processes are busy.

        Args:
            request: the program and what is asked about it.

        Returns:
            the verdict. A failure of the validator is a verdict with ``Outcome.INFRA_FAULT``, not an exception.
        """
        try:
            static = self._read(request)
            report = self._run(request, static)
        except UnavailableError as error:
            message = str(error)
            return Validation(
                outcome=Outcome.INFRA_FAULT,
                fault=Fault(kind="validator", message=message[:500]),
                gates={stage: Gate() for stage in STAGES},
                runtime=RuntimeReport(outcome=RuntimeOutcome.INFRA_ERROR, message=message[:300]),
                deterministic=False,
                versions=self.versions,
            )
        is_too_complex = any(finding.code == "too_complex" for finding in static.findings)
        return Validation(
            gates={**static.gates, "runtime": runtime_gate(request, report)},
            signals=static.signals,
            api_usage=static.api_usage,
            runtime=report,
            findings=static.findings,
            deterministic=report.outcome is not RuntimeOutcome.TIMEOUT and not is_too_complex,
            versions=self.versions,
        )

    def close(self) -> None:
        """End all processes. May be called twice."""
        self._readers.close()
        self._browsers.close()

    def _read(self, request: ValidationRequest) -> StaticResult:
        """The stages that only read the program.

        Raises:
            UnavailableError: the process that reads has failed twice.
        """
        if len(request.code.encode("utf-8", "surrogatepass")) > _MAX_CODE_BYTES:
            return unparsed(f"the code is longer than {_MAX_CODE_BYTES} bytes")
        if _SURROGATE.search(request.code):
            return unparsed("the code is not valid Unicode")
        job = {"code": request.code, "must_use": list(request.must_use), "skip_eslint": request.skip_eslint}
        for attempt in (1, 2):
            try:
                answer = _answer(self._readers, job, _READING_S)
                break
            except CommandStoppedError as error:
                is_too_large = error.why == "exited" and any(text in error.printed for text in _OUT_OF_MEMORY)
                if is_too_large or (error.why == "timeout" and not error.starved):
                    answer = {"failed": "too_complex"}
                    break
                if attempt == 2:
                    message = f"a program could not be read: {error} {error.printed[-300:]}"
                    raise UnavailableError(message) from None
            except SandboxError as error:
                raise UnavailableError(str(error)) from None
        if answer.get("failed") == "too_complex":
            return unparsed("the code is too complex to check within the limits", code="too_complex")
        if "failed" in answer:
            raise UnavailableError(f"a program could not be read: {answer['failed']}")
        return static_result(answer, request, self._index)

    def _run(self, request: ValidationRequest, static: StaticResult) -> RuntimeReport:
        """Run the program, unless an earlier stage or the request forbids it.

        Raises:
            UnavailableError: the browser or the machine has failed twice.
        """
        if request.skip_runtime or not static.gates["parse"].ok:
            return RuntimeReport(message="skipped")
        if static.gates["safety"].ok is False:
            return RuntimeReport(message="not run: the code is unsafe")
        started = time.perf_counter()
        job = {
            "code": request.code,
            "frames": request.frames,
            "limit_s": request.time_s,
            "seed": zlib.crc32(request.code.encode()),  # a program does not know its own random numbers
            **static.run_options,
        }
        message = ""
        for _ in range(2):
            try:
                answer = _answer(self._browsers, job, _BROWSER_S)
            except (CommandStoppedError, SandboxError) as error:
                message = str(error)
                continue
            if "failed" not in answer:
                ms = round((time.perf_counter() - started) * 1000, 1)
                return runtime_report(answer).model_copy(update={"ms": ms})
            message = answer["failed"]
        raise UnavailableError(f"the browser failed: {message}")

    def _start_reader(self) -> CommandProcess:
        index = str(self._index.path.resolve())
        process = CommandProcess(
            [self._node.executable, *_STATIC_FLAGS, str(NODE_FOLDER / "src" / "static.js"), index],
            Zygote(self._level, (*self._node.visible, index)),
            memory_mb=_MEMORY_MB,
        )
        process.receive(_START_S)
        return process

    def _start_browser(self) -> CommandProcess:
        if self._chromium is None:
            raise SandboxError("the validator was made to read programs only")
        process = start_browser(self._node, self._chromium)
        self.versions["chromium"] = str(process.receive(_START_S)["ready"])
        return process


def _answer(pool: ProcessPool[CommandProcess], job: dict[str, Any], time_s: float) -> dict[str, Any]:
    """The answer of a process of a pool; one that fails is replaced.

    Raises:
        CommandStoppedError, SandboxError: it has failed.
    """
    with pool.member() as process:
        process.send(job)
        return process.receive(time_s)
