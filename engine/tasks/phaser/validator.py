"""The validator of Phaser programs: Node.js processes in the sandbox, and the verdict that is formed outside them.

A program is read by one process, which never runs it, and run by another. What the second process reports about a run
is checked here: it answers with the nonce of the run and with nothing else. A process that misbehaves, or in which a
program did, is replaced before the next program.
"""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Self

from engine.errors import ConfigurationError
from engine.records import Fault, Outcome
from engine.sandbox.command_process import CommandProcess, CommandStoppedError
from engine.sandbox.levels import Level
from engine.sandbox.zygote_process import SandboxError, strongest_level
from engine.tasks.phaser.api_index import ApiIndex
from engine.tasks.phaser.judging import (
    StaticResult,
    must_use,
    runtime_gate,
    runtime_report,
    static_result,
    unparsed,
)
from engine.tasks.phaser.node_setup import NODE_FOLDER, NodeSetup, find_node
from engine.tasks.phaser.verdict import (
    DEFAULT_INPUTS,
    STAGES,
    Gate,
    InputEvent,
    RuntimeOutcome,
    RuntimeReport,
    Validation,
    ValidationRequest,
)

VERSION = "1"
"""Version of the rules by which verdicts are formed; part of the key of a cached verdict."""

RuntimeName = Literal["headless", "chromium"]

_START_S = 60.0
_HEAP_MB = 256
_MEMORY_MB = 640
_MAX_RUNS = 100
_MAX_HEAP_MB = 160.0
_OUT_OF_MEMORY = ("heap out of memory", "Allocation failed", "Array buffer allocation failed", "invalid array length")
_STATIC_FLAGS = (f"--max-old-space-size={_HEAP_MB}", "--stack-size=1800", "--no-warnings")
_RUNTIME_FLAGS = (
    "--disallow-code-generation-from-strings", f"--max-old-space-size={_HEAP_MB}", "--no-warnings", "--single-threaded",
    "--min-semi-space-size=16", "--max-semi-space-size=16", "--no-opt",
)  # fmt: skip


class _UnavailableError(Exception):
    """The validator failed, not the program."""


class PhaserValidator:
    """Validates programs with a number of workers. Made by :meth:`open`; a context manager."""

    def __init__(self, index: ApiIndex, node: NodeSetup, workers: int, level: Level) -> None:
        self._index = index
        self._slots: queue.LifoQueue[_Worker] = queue.LifoQueue()
        self._workers = [_Worker(index, node, level) for _ in range(workers)]
        for worker in self._workers:
            self._slots.put(worker)
        self._versions = {
            "validator": VERSION,
            "source": node.source_sha256,
            "phaser": index.phaser_version,
            "node": node.version,
            "api_index": index.sha256,
            "runtime": "headless",
        }
        self._closed = False

    @classmethod
    def open(cls, index: ApiIndex, workers: int = 2, level: Level | None = None) -> Self:
        """Check all that the validator needs and start its first worker.

        Args:
            index: the index of Phaser's API.
            workers: programs that are validated at the same time; two processes each.
            level: the level of isolation; the strongest available one by default.

        Raises:
            ConfigurationError: Node.js, a package or the sandbox is not as it must be; with the fix.
        """
        node = find_node()
        validator = cls(index, node, workers, level or strongest_level())
        try:
            validator._versions["eslint_config"] = validator._workers[-1].start()
        except (CommandStoppedError, SandboxError) as error:
            validator.close()
            printed = error.printed.strip()[-500:] if isinstance(error, CommandStoppedError) else ""
            raise ConfigurationError(
                f"The validator's Node.js processes do not start: {error}",
                why=printed,
                fix=f"Run `make phaser`. The processes can read only {NODE_FOLDER} and the system's libraries.",
            ) from None
        return validator

    @property
    def versions(self) -> Mapping[str, str]:
        """Everything besides the request that a verdict depends on."""
        return dict(self._versions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def validate(self, request: ValidationRequest) -> Validation:
        """Validate a program. Safe to call from several threads; blocks while all workers are busy.

        Args:
            request: the program and what is asked about it.

        Returns:
            the verdict. A failure of the validator is a verdict with ``Outcome.INFRA_FAULT``, not an exception.
        """
        seconds: dict[str, float] = {}
        try:
            with self._worker() as worker:
                static = worker.read(request, seconds)
                report, used = worker.run(request, static, seconds)
        except _UnavailableError as error:
            return self._unavailable(str(error), seconds)
        gates = dict(static.gates)
        if static.code is None:
            return Validation(gates=gates, findings=static.findings, versions=self._versions, seconds=seconds)
        gates["must_use"], usage = must_use(request, static, report, used)
        gates["runtime"] = _runtime_gate(request, report)
        return Validation(
            gates=gates,
            signals=static.signals,
            api_usage=usage,
            runtime=report,
            findings=static.findings,
            versions=self._versions,
            seconds=seconds,
        )

    def close(self) -> None:
        """End all processes. May be called twice."""
        for worker in self._workers:
            worker.close()

    @contextmanager
    def _worker(self) -> Iterator[_Worker]:
        worker = self._slots.get()
        try:
            yield worker
        finally:
            self._slots.put(worker)

    def _unavailable(self, message: str, seconds: dict[str, float]) -> Validation:
        return Validation(
            outcome=Outcome.INFRA_FAULT,
            fault=Fault(kind="validator", message=message[:500]),
            gates={stage: Gate() for stage in STAGES},
            runtime=RuntimeReport(outcome=RuntimeOutcome.INFRA_ERROR, message=message[:300]),
            deterministic=False,
            versions=self._versions,
            seconds=seconds,
        )


def _runtime_gate(request: ValidationRequest, report: RuntimeReport) -> Gate:
    if report.outcome is not RuntimeOutcome.SKIPPED:
        return runtime_gate(report)
    return Gate(ok=None, reasons=("skipped" if request.skip_runtime else report.message,))


class _Worker:
    """A process that reads programs and one that runs them. Used by one thread at a time."""

    def __init__(self, index: ApiIndex, node: NodeSetup, level: Level) -> None:
        self._index, self._node, self._level = index, node, level
        self._reader: CommandProcess | None = None
        self._runner: CommandProcess | None = None
        self._runs = 0
        self._guard = threading.Lock()
        self._closed = False

    def start(self) -> str:
        """Start both processes; the hash of ESLint's configuration."""
        self._runner = self._start_runner()
        self._reader = self._process("static.js", _STATIC_FLAGS, str(self._index.path.resolve()))
        return str(self._reader.receive(_START_S)["eslint_config"])

    def read(self, request: ValidationRequest, seconds: dict[str, float]) -> StaticResult:
        """The stages that only read the program."""
        if len(request.code.encode("utf-8", "surrogatepass")) > request.limits.code_bytes:
            return unparsed(f"the code is longer than {request.limits.code_bytes} bytes")
        if not _is_unicode(request.code):
            return unparsed("the code is not valid Unicode")
        job = {
            "nonce": secrets.token_hex(16),
            "code": request.code,
            "must_use": list(request.must_use),
            "skip_eslint": request.skip_eslint,
        }
        starved = 0
        while True:
            try:
                if self._reader is None:
                    self._reader = self._process("static.js", _STATIC_FLAGS, str(self._index.path.resolve()))
                    self._reader.receive(_START_S)
                self._reader.send(job)
                answer = self._reader.receive(request.limits.time_s + 2.0)
            except CommandStoppedError as error:
                self._reader = None
                if error.why != "timeout" and not _ran_out_of_memory(error):
                    starved += 1
                elif not error.starved:
                    return unparsed("the code is too complex to check within the limits", code="too_complex")
                if starved > 1 or (error.starved and starved):
                    raise _UnavailableError(f"a program could not be read: {error} {error.printed[-300:]}") from None
                starved += 1
            except SandboxError as error:
                raise _UnavailableError(str(error)) from None
            else:
                break
        if answer.get("nonce") != job["nonce"]:
            raise _UnavailableError("the reading process gave another program's answer")
        if "failed" in answer:
            if answer["failed"] == "too_complex":
                return unparsed("the code is too complex to check", code="too_complex")
            raise _UnavailableError(f"a program could not be read: {answer['failed']}")
        seconds.update(answer["seconds"])
        return static_result(answer, request, self._index)

    def run(
        self, request: ValidationRequest, static: StaticResult, seconds: dict[str, float]
    ) -> tuple[RuntimeReport, set[str]]:
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

    def _run_once(
        self, request: ValidationRequest, static: StaticResult, inputs: tuple[InputEvent, ...]
    ) -> tuple[RuntimeReport, set[str]]:
        """One run. What might be the machine's fault is tried again once, in a new process."""
        for attempt in (1, 2):
            try:
                return self._attempt(request, static, inputs)
            except CommandStoppedError as error:
                self._retire_runner()
                if error.why == "protocol":
                    return _stopped(RuntimeOutcome.TAMPERED, error.text, static), set()
                if _ran_out_of_memory(error):
                    return _stopped(RuntimeOutcome.OOM, "out of memory", static), set()
                if error.why == "timeout" and not error.starved:
                    return _stopped(RuntimeOutcome.TIMEOUT, error.text, static), set()
                if attempt == 2:
                    if error.why == "timeout":
                        raise _UnavailableError(f"the machine is too busy: {error.text}") from None
                    message = f"its process ended with {error.ending.code}"
                    return _stopped(RuntimeOutcome.TAMPERED, message, static), set()
            except SandboxError as error:
                self._retire_runner()
                if attempt == 2:
                    raise _UnavailableError(str(error)) from None
        raise AssertionError

    def _attempt(
        self, request: ValidationRequest, static: StaticResult, inputs: tuple[InputEvent, ...]
    ) -> tuple[RuntimeReport, set[str]]:
        if self._runner is None:
            self._runner = self._start_runner()
        runner, limits = self._runner, request.limits
        nonce = secrets.token_hex(16)
        job: dict[str, Any] = {"nonce": nonce, "code": static.code, "must_use": list(static.must_use)}
        job |= {"frames": request.frames, "seed": request.seed, "inputs": [event.model_dump() for event in inputs]}
        runner.send(job)
        used_before, phase = runner.cpu_s(), "start"
        while True:
            left = limits.total_s - (runner.cpu_s() - used_before)
            try:
                message = runner.receive(max(0.05, min(limits.time_s, left)))
            except CommandStoppedError as error:
                error.text = f"{error.text} (in {phase})"
                raise
            if message.get("nonce") != nonce:
                self._retire_runner()
                return _stopped(RuntimeOutcome.TAMPERED, "a message without the nonce of the run", static), set()
            if "outcome" in message:
                break
            phase = f"{message.get('phase')} {message.get('frame') or ''}".strip()[:40]
        try:
            report, used = runtime_report(message["outcome"], message.get("report"), static.webgl_only)
        except ValueError as error:
            self._retire_runner()
            return _stopped(RuntimeOutcome.TAMPERED, str(error), static), set()
        self._runs += 1
        is_spent = self._runs >= _MAX_RUNS or not 0 <= float(message.get("heap_mb", -1)) < _MAX_HEAP_MB
        if is_spent or report.outcome is RuntimeOutcome.TAMPERED or runner.unread:
            self._retire_runner()
        return report, used

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

    def _start_runner(self) -> CommandProcess:
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
                level=self._level,
                visible=(*self._node.visible, *map(str, (Path(argument) for argument in arguments))),
                memory_mb=_MEMORY_MB,
            )


def _stopped(outcome: RuntimeOutcome, message: str, static: StaticResult) -> RuntimeReport:
    return RuntimeReport(outcome=outcome, message=message[:300], webgl_only=static.webgl_only)


def _ran_out_of_memory(error: CommandStoppedError) -> bool:
    return error.why == "exited" and any(text in error.printed for text in _OUT_OF_MEMORY)


def _is_unicode(text: str) -> bool:
    with suppress(UnicodeEncodeError):
        text.encode("utf-8")
        return True
    return False
