"""The validator of Phaser programs: Node.js processes in the sandbox, and the verdict that is formed outside them.

A program is read by one process, which never runs it, and run in Chromium. The driver of the browser judges from
outside of the page, by pictures, errors and processor time. A process that fails is replaced before the next program.
"""

from __future__ import annotations

import queue
from collections.abc import Mapping

from engine.errors import ConfigurationError
from engine.records import Fault, Outcome
from engine.sandbox.command_process import CommandStoppedError
from engine.sandbox.zygote_process import SandboxError, level_for_rewards
from engine.tasks.phaser.validation.api_index import ApiIndex
from engine.tasks.phaser.validation.browser import find_chromium
from engine.tasks.phaser.validation.judging import StaticResult, runtime_gate
from engine.tasks.phaser.validation.node_setup import NODE_FOLDER, find_node
from engine.tasks.phaser.validation.verdict import (
    STAGES,
    Gate,
    RuntimeOutcome,
    RuntimeReport,
    Validation,
    ValidationRequest,
)
from engine.tasks.phaser.validation.worker import UnavailableError, Worker


class PhaserValidator:
    """Validates programs with a number of workers.

    Checks all that the validator needs and starts its first worker.

    Args:
        index: the index of Phaser's API.
        workers: programs that are validated at the same time; a process and a browser each.
        runs: whether programs will be run, which needs Chromium.

    Raises:
        ConfigurationError: Node.js, a package, Chromium or the sandbox is not as it must be; with the fix.
    """

    def __init__(self, index: ApiIndex, workers: int = 2, *, runs: bool = True) -> None:
        node, chromium = find_node(), find_chromium() if runs else None
        self._slots: queue.LifoQueue[Worker] = queue.LifoQueue()
        self._workers = [Worker(index, node, level_for_rewards(), chromium) for _ in range(workers)]
        for worker in self._workers:
            self._slots.put(worker)
        self._versions = {"phaser": index.phaser_version, "node": node.version, "api_index": index.sha256}
        try:
            self._workers[-1].start()
        except (CommandStoppedError, SandboxError) as error:
            self.close()
            printed = error.printed.strip()[-500:] if isinstance(error, CommandStoppedError) else ""
            raise ConfigurationError(
                f"The validator's Node.js processes do not start: {error}",
                why=printed,
                fix=f"Run `make phaser`. The processes can read only {NODE_FOLDER} and the system's libraries.",
            ) from None
        self._versions["chromium"] = self._workers[-1].chromium_version

    @property
    def versions(self) -> Mapping[str, str]:
        """What a verdict depends on besides the request and the code of this package.

        ``phaser``, ``node``, ``chromium`` (empty if nothing is run), and the SHA-256 of the index (``api_index``).
        """
        return dict(self._versions)

    def validate(self, request: ValidationRequest) -> Validation:
        """Validate a program. Safe to call from several threads; blocks while all workers are busy.

        Args:
            request: the program and what is asked about it.

        Returns:
            the verdict. A failure of the validator is a verdict with ``Outcome.INFRA_FAULT``, not an exception.
        """
        worker = self._slots.get()
        try:
            static = worker.read(request)
            report = worker.run(request, static)
        except UnavailableError as error:
            return self._unavailable(str(error))
        finally:
            self._slots.put(worker)
        return Validation(
            gates={**static.gates, "runtime": runtime_gate(request, report)},
            signals=static.signals,
            api_usage=static.api_usage,
            runtime=report,
            findings=static.findings,
            deterministic=report.outcome is not RuntimeOutcome.TIMEOUT and not _is_too_complex(static),
            versions=self._versions,
        )

    def close(self) -> None:
        """End all processes. May be called twice."""
        for worker in self._workers:
            worker.close()

    def _unavailable(self, message: str) -> Validation:
        return Validation(
            outcome=Outcome.INFRA_FAULT,
            fault=Fault(kind="validator", message=message[:500]),
            gates={stage: Gate() for stage in STAGES},
            runtime=RuntimeReport(outcome=RuntimeOutcome.INFRA_ERROR, message=message[:300]),
            deterministic=False,
            versions=self._versions,
        )


def _is_too_complex(static: StaticResult) -> bool:
    return any(finding.code == "too_complex" for finding in static.findings)
