"""The records that cross the boundary of the validator: what is asked of it, and what it found."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from engine.records import Fault, Outcome, Record
from engine.storage.append_log import write_file
from engine.tasks.phaser.validation.observed import Observed

STAGES = ("parse", "safety", "signals", "eslint", "api", "must_use", "runtime")
"""The stages in the order in which they run."""


class ValidationRequest(Record):
    """A program to validate.

    Args:
        code: the extracted JavaScript, without Markdown fences.
        must_use: symbols that the program must use, as they stand in the prompt (``Phaser.GameObjects.Graphics``).
        frames: number of frames of 1000/60 ms.
        skip_runtime: leave the stage ``runtime`` out.
        skip_eslint: leave the stage ``eslint`` out.
        time_s: processor seconds of all runs of the program.
    """

    code: str
    must_use: tuple[str, ...] = ()
    frames: int = Field(default=60, ge=1, le=3600)
    skip_runtime: bool = False
    skip_eslint: bool = False
    time_s: float = Field(default=8.0, gt=0)


class RuntimeOutcome(StrEnum):
    """How the run of a program ended. Only ``OK`` passes the runtime gate."""

    OK = "ok"
    SKIPPED = "skipped"
    """Not run: asked for, or an earlier gate failed (see the gate's reasons)."""
    SCRIPT_ERROR = "script_error"
    """The program threw before a scene was created."""
    NO_GAME = "no_game"
    NO_SCENE = "no_scene"
    """A game was made and it booted, but no scene of the program reached ``create``."""
    NOTHING_SHOWN = "nothing_shown"
    """The game ran, and its picture has one colour only."""
    PRELOAD_ERROR = "preload_error"
    """Thrown in ``init`` or ``preload``."""
    CREATE_ERROR = "create_error"
    UPDATE_ERROR = "update_error"
    """Thrown in a frame: by ``update``, a timer, a tween, a physics callback or an input handler. The name of a scene,
    texture or animation that does not exist is an error too."""
    STOPPED = "stopped"
    """The program stopped the game loop, so that later frames did not run."""
    TIMEOUT = "timeout"
    OOM = "oom"
    TAMPERED = "tampered"
    """The program changed the page so that the run could not be followed."""
    INFRA_ERROR = "infra_error"
    """The validator failed, not the program. Never a reward."""


class Gate(Record):
    """The result of one stage.

    Args:
        ok: whether it passed; None if it did not run.
        reasons: short reasons why it failed or did not run.
    """

    ok: bool | None = None
    reasons: tuple[str, ...] = ()


class Finding(Record):
    """An error or warning of any stage. ``code`` is a stable name; line and column count from 1 and 0."""

    code: str
    message: str
    severity: Literal["error", "warning"] = "error"
    line: int | None = None
    column: int | None = None


class ApiUse(Record):
    """A use of Phaser's API in the source. ``near`` has the nearest existing symbols of a miss."""

    symbol_id: str
    raw: str
    line: int
    column: int
    near: tuple[str, ...] = ()


class ApiUsage(Record):
    """Uses of Phaser's API: existing symbols, symbols that do not exist, and the verdict on ``must_use``."""

    hits: tuple[ApiUse, ...] = ()
    misses: tuple[ApiUse, ...] = ()
    must_use_hits: tuple[str, ...] = ()
    must_use_misses: tuple[str, ...] = ()


class SourceSignals(Record):
    """Signals in the syntax tree, without comments and strings: reachable code only."""

    has_new_phaser_game: bool = False
    has_scene_in_config: bool = False
    has_preload: bool = False
    has_create: bool = False
    has_update: bool = False


class RuntimeReport(Record):
    """The run of a program.

    Args:
        outcome: how it ended, and ``message``: why.
        frame: the frame of an error.
        observed: what was seen; None without a run.
        ms: wall-clock time.
        screenshot: a PNG of the last picture in base64, if there is one.
    """

    outcome: RuntimeOutcome = RuntimeOutcome.SKIPPED
    message: str = ""
    frame: int | None = None
    observed: Observed | None = None
    ms: float = 0.0
    screenshot: str | None = None

    def write_screenshot(self, path: Path) -> bool:
        """Write the picture, if there is one, and make its folder; whether there is one."""
        if self.screenshot is None:
            return False
        write_file(path, base64.b64decode(self.screenshot))
        return True


class Validation(Record):
    """What the validator found.

    Args:
        outcome: ``OK`` if a verdict was reached, whatever it is; ``INFRA_FAULT`` if the validator failed, and then the
            gates mean nothing and there is no reward.
        fault: the failure of the validator.
        gates: stage -> result, for all :data:`STAGES`.
        findings: errors and warnings of all stages.
        deterministic: whether the same request gives the same verdict again, so that it may be cached. False for
            infrastructure failures and where a time limit was reached.
        versions: what the verdict depends on besides the request (see :class:`PhaserValidator`).
    """

    outcome: Outcome = Outcome.OK
    fault: Fault | None = None
    gates: dict[str, Gate]
    signals: SourceSignals = SourceSignals()
    api_usage: ApiUsage = ApiUsage()
    runtime: RuntimeReport = RuntimeReport()
    findings: tuple[Finding, ...] = ()
    deterministic: bool = True
    versions: dict[str, str] = Field(default_factory=dict)

    @property
    def parse_ok(self) -> bool:
        """Whether the code is JavaScript."""
        return bool(self.gates["parse"].ok)

    @property
    def unsafe(self) -> bool:
        """Whether the code uses something that a game has no use for: other modules, code in strings, processes."""
        return self.gates["safety"].ok is False

    def rows(self) -> Mapping[str, Any]:
        """The validation as a scored row stores it, with the keys of seed 000."""
        rows = [finding.model_dump(mode="json", exclude_none=True) for finding in self.findings]
        observed = self.runtime.observed
        return {
            **{f"{name}_ok": self.gates[gate].ok for name, gate in _SEED_GATES.items()},
            "errors": [row for row in rows if row["severity"] == "error"],
            "warnings": [row for row in rows if row["severity"] == "warning"],
            "api_usage": self.api_usage.model_dump(mode="json"),
            "runtime": {
                "ms": self.runtime.ms,
                "crashed": self.runtime.outcome not in (RuntimeOutcome.OK, RuntimeOutcome.SKIPPED),
                "logs": list(observed.console) if observed else [],
                "errors": [self.runtime.message] if self.runtime.message else [],
                "signals": observed.model_dump(mode="json") if observed else {},
                "outcome": self.runtime.outcome.value,
                "frame": self.runtime.frame,
            },
            "signals": self.signals.model_dump(),
            "gates": {name: gate.model_dump(mode="json") for name, gate in self.gates.items()},
            "outcome": self.outcome.value,
            "versions": dict(self.versions),
        }


_SEED_GATES = {"parse": "parse", "lint": "eslint", "api": "api", "runtime": "runtime"}
