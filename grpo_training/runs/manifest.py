"""The manifest of a run: which configuration its results were made with. Configurations are never mixed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.api_manager import ANALYST_ROLE, JUDGE_ROLE
from engine.errors import InputError
from engine.reading.masking import without_secrets
from engine.storage.append_log import replace_file
from engine.storage.file_stamp import file_stamp
from grpo_training.runs.settings import ResumableSettings

_DIGESTS = {
    "samples": "the replies to train on",
    "problems": "the problems",
    "problems_hash": "the problems",
    "rows": "the questions of the dataset",
    "prompt_hash": "the prompts",
    "lessons_hash": "the experiences",
    "reward": "the reward function",
    "task_file": "the task file or a module beside it",
    "embeddings": "the embeddings",
    "beam_data": "the beam data",
    "sft_ckpt": "the checkpoint",
}
"""Facts whose values are digests, and what they are made of."""


OPEN = "open"
"""In the report of a run whose other problems are complete: the problems that are open, with the reason."""


class OtherRunError(InputError):
    """The stored results are of another configuration, or of an unknown one."""


@dataclass(frozen=True)
class RunManifest:
    """The content of a manifest file.

    Args:
        path: the file.
        run: unique id of the run; the library's log refers to it.
        configuration: ``settings`` (fields that change the results) and ``facts`` (what else does), as JSON values.
        is_finished: whether an earlier start completed the run.
        experiences: folder of the libraries of the run; empty if it is not recorded.
        groups: how many groups the run makes; None if that is not recorded.
        stamp, report: what :meth:`finish` was given.
        asked_early: number of a step that was asked beyond the window -> how many steps the library of its prompts had.
    """

    path: Path
    run: str
    configuration: dict[str, Any]
    is_finished: bool = False
    experiences: str = ""
    groups: int | None = None
    stamp: str = ""
    report: dict[str, Any] | None = None
    asked_early: dict[int, int] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """The stored settings."""
        return dict(self.configuration.get("settings", {}))

    @property
    def window(self) -> int | None:
        """The window of the run; None if it is not stored."""
        window = self.settings.get("window")
        return window if isinstance(window, int) else None

    @property
    def facts(self) -> dict[str, Any]:
        """The stored facts."""
        return dict(self.configuration.get("facts", {}))

    def finish(self, report: Mapping[str, Any] | None = None, stamp: str = "") -> None:
        """Record that the run is complete.

        Args:
            report: what a later start prints in place of reading the results again, as JSON values.
            stamp: of what the report was made of; see :func:`stamp_of`. Without it a later start reads the results.
        """
        stored = None if report is None else dict(report)
        dataclasses.replace(self, is_finished=True, stamp=stamp, report=stored).save()

    @property
    def open(self) -> list[str]:
        """The problems that are open although the run has ended, with the reason."""
        return list((self.report or {}).get(OPEN, ()))

    def report_of(self, stamp: str) -> dict[str, Any] | None:
        """The report of a complete run; None if it has none, or what it was made of has changed since."""
        return self.report if self.is_finished and self.stamp == stamp else None

    def note_early(self, step: int, steps_before: int) -> None:
        """Record durably that a step of this unfinished run is asked with the library after ``steps_before`` steps."""
        self.asked_early[step] = steps_before
        dataclasses.replace(self, is_finished=False, stamp="", report=None).save()

    def save(self) -> None:
        """Write the file atomically."""
        content = {"run": self.run, "finished": self.is_finished, "configuration": self.configuration}
        if self.experiences:
            content["experiences"] = self.experiences
        if self.groups is not None:
            content["groups"] = self.groups
        if self.asked_early:
            content["asked_early"] = self.asked_early
        if self.report is not None:
            content["completion"] = {"stamp": self.stamp, "report": self.report}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self.path, json.dumps(content, indent=2, ensure_ascii=False).encode(errors="replace") + b"\n")


def stamp_of(inputs: Any, files: Sequence[Path]) -> str:
    """A digest that changes with the inputs of a run, and whenever one of its files is written or replaced.

    Args:
        inputs: as a JSON value.
        files: those that the run reads or writes.
    """
    return hashlib.sha256(json.dumps([inputs, [(path.name, file_stamp(path)) for path in files]]).encode()).hexdigest()


def load_manifest(path: Path) -> RunManifest | None:
    """Read a manifest; None if there is no such file.

    Raises:
        InputError: the file is damaged.
    """
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
        configuration = dict(loaded["configuration"])
        for name in ("settings", "facts"):
            if not isinstance(configuration.get(name, {}), dict):
                raise TypeError(f"{name} is not an object")
        experiences = str(loaded.get("experiences", ""))
        groups = loaded.get("groups")
        groups = groups if isinstance(groups, int) and groups > 0 else None
        completion = loaded.get("completion", {})
        return RunManifest(
            path,
            str(loaded["run"]),
            configuration,
            bool(loaded["finished"]),
            experiences,
            groups,
            str(completion.get("stamp", "")),
            dict(completion["report"]) if "report" in completion else None,
            {int(step): int(steps_before) for step, steps_before in loaded.get("asked_early", {}).items()},
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"Cannot read {path}",
            why=f"It is not a manifest: {type(error).__name__}: {error}"[:300],
            fix="Pass --fresh to set the results aside and start over.",
        ) from None


def is_same_configuration(
    stored: RunManifest, wanted: Mapping[str, Any], compared: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> bool:
    """Whether the results of a manifest are of the wanted configuration; see :func:`check_same_configuration`."""
    return not _differences(stored, json.loads(json.dumps(wanted)), compared(stored.settings))


def check_same_configuration(stored: RunManifest, wanted: Mapping[str, Any], settings: ResumableSettings) -> None:
    """Raise ``OtherRunError`` if the results of a manifest are of another configuration.

    Args:
        stored: the manifest.
        wanted: ``settings`` and ``facts``.
        settings: of this start.
    """
    differences = _differences(stored, wanted, settings.compared(stored.settings))
    if differences:
        has_settings = bool(differences.keys() & wanted["settings"].keys())
        resume = "--resume to continue with the stored settings, " if has_settings and not settings.resume else ""
        fix = f"Pass {resume}--fresh to set the stored results aside, or another --run or folder to keep both."
        if any(_is_of_endpoint(key) for key in differences):
            fix = f"Continue with the models that made the results (--api-config, or --base-url and --model). {fix}"
        raise OtherRunError(
            f"{stored.path.parent} holds results of another configuration", why="; ".join(differences.values()), fix=fix
        )


def _differences(stored: RunManifest, wanted: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, str]:
    """A text for each setting or fact whose value changed, such as ``tau: stored 0.05, given 0.2``."""
    old_facts, new_facts = stored.facts, wanted["facts"]
    if ANALYST_ROLE in old_facts or ANALYST_ROLE in new_facts:  # without one, the model writes the experiences itself
        old_facts, new_facts = ({ANALYST_ROLE: facts.get("model"), **facts} for facts in (old_facts, new_facts))
    return {
        key: f"{key}{_of_what(key, old, new)}: stored {_as_written(key, old)}, given {_as_written(key, new)}"
        for old, new in ((settings, wanted["settings"]), (old_facts, new_facts))
        for key in sorted(old.keys() | new.keys())
        if _shown(key, old) != _shown(key, new) and not (key == "task" and _has_moved(old, new, old_facts, new_facts))
    }


def _is_of_endpoint(key: str) -> bool:
    """Whether a fact is about the endpoint of a role."""
    return key in (ANALYST_ROLE, JUDGE_ROLE) or key.startswith("extra_body")


def _has_moved(
    old: Mapping[str, Any], new: Mapping[str, Any], old_facts: Mapping[str, Any], new_facts: Mapping[str, Any]
) -> bool:
    """Whether two settings name the same object of a task file with the same content, at another path."""
    names = [str(settings.get("task")).rpartition(":")[2] for settings in (old, new)]
    digests = [facts.get("task_file") for facts in (old_facts, new_facts)]
    return names[0] == names[1] and digests[0] == digests[1] is not None


def _of_what(key: str, *facts: Mapping[str, Any]) -> str:
    """What a digest is made of; empty for a fact or setting that says it itself."""
    is_digest = any(re.fullmatch("[0-9a-f]{8,64}", str(values.get(key))) for values in facts)
    return f" ({_DIGESTS[key]})" if key in _DIGESTS and is_digest else ""


def _as_written(key: str, values: Mapping[str, Any]) -> str:
    """A value as a person writes it on a command line or in YAML."""
    value = _shown(key, values)
    if value is None:
        return "no judge" if key == JUDGE_ROLE else "nothing"
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _shown(key: str, values: Mapping[str, Any]) -> Any:
    """A value without keys, which earlier versions stored in the fields of a request."""
    return without_secrets(values.get(key)) if key.startswith("extra_body") else values.get(key)
