"""The validator of Phaser programs: Node.js processes in the sandbox, and the verdict that is formed outside them.

A program is read by one process, which never runs it, and run by another. What the second process reports about a run
is checked here: it answers with the nonce of the run and with nothing else. A process that misbehaves, or in which a
program did, is replaced before the next program.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, Self

from engine.errors import ConfigurationError
from engine.records import Fault, Outcome
from engine.sandbox.command_process import CommandStoppedError
from engine.sandbox.levels import Level
from engine.sandbox.zygote_process import SandboxError, level_for_rewards
from engine.tasks.phaser.validation.api_index import ApiIndex
from engine.tasks.phaser.validation.browser import find_chromium
from engine.tasks.phaser.validation.judging import must_use, runtime_gate
from engine.tasks.phaser.validation.node_setup import NODE_FOLDER, NodeSetup, find_node
from engine.tasks.phaser.validation.verdict import (
    STAGES,
    Gate,
    RuntimeOutcome,
    RuntimeReport,
    Validation,
    ValidationRequest,
)
from engine.tasks.phaser.validation.worker import UnavailableError, Worker

VERSION = "1"
"""Version of the rules by which verdicts are formed; part of the key of a cached verdict."""

RuntimeName = Literal["headless", "chromium"]


class PhaserValidator:
    """Validates programs with a number of workers. Made by :meth:`open`; a context manager."""

    def __init__(
        self, index: ApiIndex, node: NodeSetup, workers: int, level: Level, chromium: str | None = None
    ) -> None:
        self._slots: queue.LifoQueue[Worker] = queue.LifoQueue()
        self._workers = [Worker(index, node, level, chromium) for _ in range(workers)]
        for worker in self._workers:
            self._slots.put(worker)
        self._versions = {
            "validator": VERSION,
            "source": node.source_sha256,
            "phaser": index.phaser_version,
            "node": node.version,
            "api_index": index.sha256,
            "runtime": "chromium" if chromium else "headless",
        }

    @classmethod
    def open(
        cls, index: ApiIndex, workers: int = 2, runtime: RuntimeName = "headless", level: Level | None = None
    ) -> Self:
        """Check all that the validator needs and start its first worker.

        Args:
            index: the index of Phaser's API.
            workers: programs that are validated at the same time; two processes each.
            runtime: ``headless``, or ``chromium`` for a real browser, which is slower and makes screenshots.
            level: the level of isolation; by default the strongest available one, if rewards are permitted on it.

        Raises:
            ConfigurationError: Node.js, a package or the sandbox is not as it must be; with the fix.
        """
        node = find_node()
        chromium = find_chromium() if runtime == "chromium" else None
        validator = cls(index, node, workers, level or level_for_rewards(), chromium)
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
        """Everything besides the request that a verdict depends on, and so the key of a cache.

        ``validator``, ``phaser``, ``node``, ``runtime`` (``headless`` or ``chromium``), and the SHA-256 of the
        JavaScript (``source``), of the index (``api_index``) and of ESLint's configuration (``eslint_config``).
        """
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
                worker.screenshot = None
                static = worker.read(request, seconds)
                report, used = worker.run(request, static, seconds)
                screenshot = worker.screenshot
        except UnavailableError as error:
            return self._unavailable(str(error), seconds)
        gates = dict(static.gates)
        if static.code is None:
            return Validation(
                gates=gates,
                findings=static.findings,
                deterministic=all(finding.code != "too_complex" for finding in static.findings),
                versions=self._versions,
                seconds=seconds,
            )
        gates["must_use"], usage = must_use(request, static, report, used)
        gates["runtime"] = runtime_gate(request, report)
        return Validation(
            gates=gates,
            signals=static.signals,
            api_usage=usage,
            runtime=report,
            findings=static.findings,
            deterministic=report.outcome is not RuntimeOutcome.TIMEOUT,
            versions=self._versions,
            seconds=seconds,
            screenshot=screenshot,
        )

    def cpu_s(self) -> float:
        """Processor seconds of all living processes; those that were replaced are not counted."""
        return sum(worker.cpu_s() for worker in self._workers)

    def close(self) -> None:
        """End all processes. May be called twice."""
        for worker in self._workers:
            worker.close()

    @contextmanager
    def _worker(self) -> Iterator[Worker]:
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
