"""The processes of one worker of the validator: one reads programs and never runs them, the other runs them."""

from __future__ import annotations

import re
import threading
import time
import zlib
from typing import Any

from engine.sandbox.command_process import CommandProcess, CommandStoppedError
from engine.sandbox.levels import Level
from engine.sandbox.zygote_process import SandboxError, Zygote
from engine.tasks.phaser.validation.api_index import ApiIndex
from engine.tasks.phaser.validation.browser import start_browser
from engine.tasks.phaser.validation.judging import StaticResult, runtime_report, static_result, unparsed
from engine.tasks.phaser.validation.node_setup import NODE_FOLDER, NodeSetup
from engine.tasks.phaser.validation.verdict import RuntimeReport, ValidationRequest

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


class Worker:
    """A process that reads programs and a browser that runs them. Used by one thread at a time.

    Args:
        index: of Phaser's API.
        node: Node.js.
        level: the level of isolation of the process that reads.
        chromium: path of the browser; None if no program will be run.
    """

    def __init__(self, index: ApiIndex, node: NodeSetup, level: Level, chromium: str | None) -> None:
        self._index, self._node, self._level, self._chromium = index, node, level, chromium
        self._reader: CommandProcess | None = None
        self._browser: CommandProcess | None = None
        self.chromium_version = ""
        self._guard = threading.Lock()
        self._closed = False

    def start(self) -> None:
        """Start the processes."""
        if self._chromium is not None:
            self._browser = self._start_browser()
        self._reader = self._start_reader()

    def read(self, request: ValidationRequest) -> StaticResult:
        """The stages that only read the program."""
        if len(request.code.encode("utf-8", "surrogatepass")) > _MAX_CODE_BYTES:
            return unparsed(f"the code is longer than {_MAX_CODE_BYTES} bytes")
        if _SURROGATE.search(request.code):
            return unparsed("the code is not valid Unicode")
        job = {"code": request.code, "must_use": list(request.must_use), "skip_eslint": request.skip_eslint}
        answer = self._read_answer(job)
        if answer is None or answer.get("failed") == "too_complex":
            return unparsed("the code is too complex to check within the limits", code="too_complex")
        if "failed" in answer:
            raise UnavailableError(f"a program could not be read: {answer['failed']}")
        return static_result(answer, request, self._index)

    def _read_answer(self, job: dict[str, Any]) -> dict[str, Any] | None:
        """The reading process's answer; None if the job takes too much time or memory. Tried twice."""
        for attempt in (1, 2):
            try:
                if self._reader is None:
                    self._reader = self._start_reader()
                self._reader.send(job)
                return self._reader.receive(_READING_S)
            except CommandStoppedError as error:
                self._reader = None
                is_too_large = error.why == "exited" and any(text in error.printed for text in _OUT_OF_MEMORY)
                if is_too_large or (error.why == "timeout" and not error.starved):
                    return None
                if attempt == 2:
                    message = f"a program could not be read: {error} {error.printed[-300:]}"
                    raise UnavailableError(message) from None
            except SandboxError as error:
                raise UnavailableError(str(error)) from None
        raise AssertionError

    def run(self, request: ValidationRequest, static: StaticResult) -> RuntimeReport:
        """Run the program, unless an earlier stage or the request forbids it."""
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
        report = runtime_report(self._run_answer(job))
        return report.model_copy(update={"ms": round((time.perf_counter() - started) * 1000, 1)})

    def _run_answer(self, job: dict[str, Any]) -> dict[str, Any]:
        """The answer of the browser's driver. If it ends, the browser or the machine failed: it is tried again once."""
        for attempt in (1, 2):
            try:
                if self._browser is None:
                    self._browser = self._start_browser()
                self._browser.send(job)
                answer = self._browser.receive(_BROWSER_S)
                if "failed" not in answer:
                    return answer
                message = str(answer["failed"])
            except (CommandStoppedError, SandboxError) as error:
                message = str(error)
                if self._browser is not None:
                    self._browser.close()
                self._browser = None
            if attempt == 2:
                raise UnavailableError(f"the browser failed: {message}")
        raise AssertionError

    def close(self) -> None:
        """End both processes."""
        with self._guard:
            self._closed = True
            for process in (self._reader, self._browser):
                if process is not None:
                    process.close()

    def _start_reader(self) -> CommandProcess:
        index = str(self._index.path.resolve())
        with self._guard:
            self._check_open()
            process = CommandProcess(
                [self._node.executable, *_STATIC_FLAGS, str(NODE_FOLDER / "src" / "static.js"), index],
                Zygote(self._level, (*self._node.visible, index)),
                memory_mb=_MEMORY_MB,
            )
        process.receive(_START_S)
        return process

    def _start_browser(self) -> CommandProcess:
        assert self._chromium is not None
        with self._guard:
            self._check_open()
            process = start_browser(self._node, self._chromium)
        self.chromium_version = str(process.receive(_START_S)["ready"])
        return process

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxError("the validator is closed")
