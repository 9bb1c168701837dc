"""The processes of one worker of the validator: one reads programs and never runs them, the other runs them."""

from __future__ import annotations

import itertools
import random
import re
import secrets
import threading
import time
from typing import Any

from engine.sandbox.command_process import CommandProcess, CommandStoppedError
from engine.sandbox.levels import Level
from engine.sandbox.zygote_process import SandboxError, Zygote
from engine.tasks.phaser.validation.api_index import ApiIndex
from engine.tasks.phaser.validation.browser import start_browser
from engine.tasks.phaser.validation.judging import StaticResult, runtime_report, static_result, unparsed
from engine.tasks.phaser.validation.node_setup import NODE_FOLDER, NodeSetup
from engine.tasks.phaser.validation.verdict import (
    DEFAULT_INPUTS,
    InputEvent,
    RuntimeOutcome,
    RuntimeReport,
    ValidationRequest,
)

_START_S = 60.0
_BROWSER_S = 120.0
_READING_S = 2.0
_HEAP_MB = 256
_MEMORY_MB = 640
_MAX_RUNS = 100
_PICTURES = 8
_MAX_HEAP_MB = 160.0
_OUT_OF_MEMORY = ("heap out of memory", "Allocation failed", "Array buffer allocation failed", "invalid array length")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_STATIC_FLAGS = (f"--max-old-space-size={_HEAP_MB}", "--stack-size=1800", "--no-warnings")
_RUNTIME_FLAGS = (
    "--disallow-code-generation-from-strings", f"--max-old-space-size={_HEAP_MB}", "--no-warnings", "--single-threaded",
    "--min-semi-space-size=16", "--max-semi-space-size=16", "--no-opt",
)  # fmt: skip


Run = tuple[RuntimeReport, set[str]]
"""The report of a run, and the must-use symbols that it showed."""


class UnavailableError(Exception):
    """The validator failed, not the program."""


class Worker:
    """A process that reads programs and one that runs them. Used by one thread at a time."""

    def __init__(self, index: ApiIndex, node: NodeSetup, level: Level, chromium: str | None) -> None:
        self._index, self._node, self._level, self._chromium = index, node, level, chromium
        self._reader: CommandProcess | None = None
        self._runner: CommandProcess | None = None
        self._runs = 0
        self._eslint_config = ""
        self.screenshot: str | None = None
        self._guard = threading.Lock()
        self._closed = False

    def start(self) -> str:
        """Start both processes; the hash of ESLint's configuration."""
        self._runner = self._start_runner()
        self._reader = self._start_reader()
        return self._eslint_config

    def read(self, request: ValidationRequest, seconds: dict[str, float]) -> StaticResult:
        """The stages that only read the program."""
        if len(request.code.encode("utf-8", "surrogatepass")) > request.limits.code_bytes:
            return unparsed(f"the code is longer than {request.limits.code_bytes} bytes")
        if _SURROGATE.search(request.code):
            return unparsed("the code is not valid Unicode")
        job = {
            "nonce": secrets.token_hex(16),
            "code": request.code,
            "must_use": list(request.must_use),
            "skip_eslint": request.skip_eslint,
        }
        answer = self._answer(job, request.limits.time_s + _READING_S)
        if answer is None:
            return unparsed("the code is too complex to check within the limits", code="too_complex")
        if answer.get("nonce") != job["nonce"]:
            raise UnavailableError("the reading process gave another program's answer")
        if "failed" in answer:
            if answer["failed"] == "too_complex":
                return unparsed("the code is too complex to check", code="too_complex")
            raise UnavailableError(f"a program could not be read: {answer['failed']}")
        seconds.update(answer["seconds"])
        return static_result(answer, request, self._index)

    def _answer(self, job: dict[str, Any], time_s: float) -> dict[str, Any] | None:
        """The reading process's answer; None if the job takes too much time or memory. Tried twice."""
        for attempt in (1, 2):
            try:
                if self._reader is None:
                    self._reader = self._start_reader()
                self._reader.send(job)
                return self._reader.receive(time_s)
            except CommandStoppedError as error:
                self._reader = None
                if _ran_out_of_memory(error) or (error.why == "timeout" and not error.starved):
                    return None
                if attempt == 2:
                    message = f"a program could not be read: {error} {error.printed[-300:]}"
                    raise UnavailableError(message) from None
            except SandboxError as error:
                raise UnavailableError(str(error)) from None
        raise AssertionError

    def run(self, request: ValidationRequest, static: StaticResult, seconds: dict[str, float]) -> Run:
        """Run the program, unless an earlier stage or the request forbids it."""
        if static.code is None or request.skip_runtime:
            return RuntimeReport(message="skipped"), set()
        if static.gates["safety"].ok is False:
            return RuntimeReport(message="not run: the code is unsafe"), set()
        started = time.perf_counter()
        inputs = DEFAULT_INPUTS if request.inputs is None else request.inputs
        report, used = self._run_once(request, static, inputs)
        if request.check_reaction and report.outcome is RuntimeOutcome.OK and report.observed is not None:
            report = self._with_reactions(request, static, inputs, report)
        seconds["runtime"] = time.perf_counter() - started
        return report.model_copy(update={"ms": round(seconds["runtime"] * 1000, 1)}), used

    def _with_reactions(
        self, request: ValidationRequest, static: StaticResult, inputs: tuple[InputEvent, ...], report: RuntimeReport
    ) -> RuntimeReport:
        """Compare runs with one kind of input each with a run without any."""
        assert report.observed is not None
        kinds = {"reacted_to_keys": ("keydown", "keyup"), "reacted_to_pointer": ("pointer", "wheel")}
        chosen = {
            field: tuple(event for event in inputs if event.kind.startswith(names)) for field, names in kinds.items()
        }
        found: dict[str, bool] = {}
        without = self._run_once(request, static, ())[0].observed
        for field, events in chosen.items():
            observed = self._run_once(request, static, events)[0].observed if events else None
            if observed is not None and without is not None:
                found[field] = observed.digest != without.digest
        return report.model_copy(update={"observed": report.observed.model_copy(update=found)})

    def _run_once(self, request: ValidationRequest, static: StaticResult, inputs: tuple[InputEvent, ...]) -> Run:
        """One run. What might be the machine's fault is tried again once, in a new process."""
        for attempt in (1, 2):
            try:
                return self._attempt(request, static, inputs)
            except CommandStoppedError as error:
                self._retire_runner()
                if error.why == "protocol":
                    return _stopped(RuntimeOutcome.TAMPERED, error.text, static)
                if _ran_out_of_memory(error):
                    return _stopped(RuntimeOutcome.OOM, "out of memory", static)
                if error.why == "timeout" and not error.starved:
                    return _stopped(RuntimeOutcome.TIMEOUT, error.text, static)
                if attempt == 2:
                    if error.why == "timeout":
                        raise UnavailableError(f"the machine is too busy: {error.text}") from None
                    return _stopped(RuntimeOutcome.TAMPERED, f"its process ended with {error.ending.code}", static)
            except SandboxError as error:
                self._retire_runner()
                if attempt == 2:
                    raise UnavailableError(str(error)) from None
        raise AssertionError

    def _attempt(self, request: ValidationRequest, static: StaticResult, inputs: tuple[InputEvent, ...]) -> Run:
        if self._runner is None:
            self._runner = self._start_runner()
        runner, limits = self._runner, request.limits
        nonce = secrets.token_hex(16)
        job: dict[str, Any] = {"nonce": nonce, "code": static.code, "must_use": list(static.must_use)}
        # A program that knew its random numbers, its time or its pictures would know where it runs.
        rng = random.Random(static.code)  # noqa: S311 - no secret
        job |= {"frames": request.frames, "inputs": [event.model_dump() for event in inputs]}
        job |= {"screenshot": request.screenshot, "pictures": _pictures(rng, request.frames)}
        job["seed"] = rng.getrandbits(31) ^ request.seed
        runner.send(job)
        used_before, phase = runner.cpu_s(), "start"
        while True:
            left = limits.total_s - (runner.cpu_s() - used_before)
            try:
                message = runner.receive(_BROWSER_S if self._chromium else max(0.05, min(limits.time_s, left)))
            except CommandStoppedError as error:
                error.text = f"{error.text} (in {phase})"
                raise
            if message.get("nonce") != nonce:
                self._retire_runner()
                return _stopped(RuntimeOutcome.TAMPERED, "a message without the nonce of the run", static)
            if "failed" in message:
                raise SandboxError(f"a run could not be followed: {message['failed']}")
            if "outcome" in message:
                break
            phase = f"{message.get('phase')} {message.get('frame') or ''}".strip()[:40]
        try:
            report, used = runtime_report(message["outcome"], message.get("report"), static.webgl_only)
        except ValueError as error:
            self._retire_runner()
            return _stopped(RuntimeOutcome.TAMPERED, str(error), static)
        screenshot = message.get("screenshot")
        self.screenshot = screenshot if isinstance(screenshot, str) else None
        self._runs += 1
        is_spent = self._runs >= _MAX_RUNS or not 0 <= float(message.get("heap_mb", -1)) < _MAX_HEAP_MB
        if is_spent or report.outcome is RuntimeOutcome.TAMPERED or runner.unread:
            self._retire_runner()
        return report, used

    def cpu_s(self) -> float:
        """Processor seconds of the living processes; a browser's are unknown and count as 0."""
        return sum(process.cpu_s() for process in (self._reader, self._runner) if process is not None)

    def close(self) -> None:
        """End both processes."""
        with self._guard:
            self._closed = True
            for process in (self._reader, self._runner):
                if process is not None:
                    process.close()

    def _retire_runner(self) -> None:
        if self._runner is not None:
            self._runner.close()
        self._runner, self._runs = None, 0

    def _start_reader(self) -> CommandProcess:
        process = self._process("static.js", _STATIC_FLAGS, str(self._index.path.resolve()))
        self._eslint_config = str(process.receive(_START_S)["eslint_config"])
        return process

    def _start_runner(self) -> CommandProcess:
        if self._chromium is not None:
            return start_browser(self._node, self._chromium, _BROWSER_S)
        process = self._process("runtime.js", _RUNTIME_FLAGS)
        process.receive(_START_S)
        self._runs = 0
        return process

    def _process(self, script: str, flags: tuple[str, ...], *arguments: str) -> CommandProcess:
        with self._guard:
            if self._closed:
                raise SandboxError("the validator is closed")
            return CommandProcess(
                [self._node.executable, *flags, str(NODE_FOLDER / "src" / script), *arguments],
                Zygote(self._level, (*self._node.visible, *arguments)),
                memory_mb=_MEMORY_MB,
            )


def _stopped(outcome: RuntimeOutcome, message: str, static: StaticResult) -> Run:
    return RuntimeReport(outcome=outcome, message=message[:300], webgl_only=static.webgl_only), set()


def _ran_out_of_memory(error: CommandStoppedError) -> bool:
    return error.why == "exited" and any(text in error.printed for text in _OUT_OF_MEMORY)


def _pictures(rng: random.Random, frames: int) -> list[int]:
    """The numbers of the frames in which it is examined what can be seen: one at random in each eighth of the run, and
    the last. A program does not know them, and each of its runs has the same.
    """
    edges = [round(frames * part / _PICTURES) for part in range(_PICTURES + 1)]
    chosen = {rng.randint(low + 1, high) for low, high in itertools.pairwise(edges) if high > low}
    return sorted(chosen | {frames})
