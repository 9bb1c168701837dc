"""What a cache's results were made with. Results of different configurations are never mixed."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from engine.errors import InputError
from engine.storage.append_log import replace_file

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from engine.storage.rollout_store import RolloutStore
    from grpo_training.learning.settings import RunSettings


SettingsT = TypeVar("SettingsT", bound="RunSettings")

_BEFORE: dict[str, Any] = {"logprobs": False}
"""Settings that manifests of earlier versions do not name -> what held then."""


@dataclass(frozen=True)
class RunManifest:
    """The configuration that a cache belongs to.

    Args:
        run: the name of this run in the library's log, used once.
        configuration: what shapes the results, as JSON values.
        finished: whether the run came to its end.
    """

    run: str
    configuration: dict[str, Any]
    finished: bool = False

    def finish(self, path: Path) -> None:
        """Write that the run came to its end."""
        self.save(path, finished=True)

    def save(self, path: Path, *, finished: bool = False) -> None:
        """Write the manifest beside the cache, atomically."""
        text = json.dumps(
            {"run": self.run, "finished": finished, "configuration": self.configuration},
            indent=2,
            ensure_ascii=False,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode() + b"\n")


def load_manifest(path: Path) -> RunManifest | None:
    """The manifest at ``path``; None where there is none.

    Raises:
        InputError: it cannot be read.
    """
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
        return RunManifest(str(loaded["run"]), dict(loaded["configuration"]), bool(loaded["finished"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"Cannot read {path}", why=str(error), fix="Start anew with --fresh; the old results are set aside."
        ) from None


def resumed_settings(settings: SettingsT, path: Path) -> SettingsT:
    """The settings of the manifest at ``path`` in place of the given ones, where ``--resume`` asks for them."""
    manifest = load_manifest(path) if settings.resume else None
    if manifest is None:
        return settings
    return settings.model_copy(update=_settings_of(manifest.configuration, type(settings).model_fields))


def settle_run(
    path: Path,
    settings: Mapping[str, Any],
    facts: Mapping[str, Any],
    results: Sequence[Path],
    *,
    resume: bool,
) -> RunManifest:
    """Decide whether this start goes on with the cache, begins one, or must be refused.

    Args:
        path: the manifest's place.
        settings: the settings that shape results, after :func:`resumed_settings`.
        facts: what shapes results and no setting of this start can restore: model, prompt hash.
        results: the result files that the manifest speaks for.
        resume: go on with the settings there.

    Raises:
        InputError: the cache holds results of another configuration, or ones whose configuration is not known,
            and ``resume`` does not mend that.
    """
    wanted = _as_json({"settings": dict(settings), "facts": dict(facts)})
    existing = load_manifest(path)
    has_results = any(file.exists() and file.stat().st_size for file in results)
    if existing is not None and (has_results or existing.configuration == wanted):
        differences = _differences(existing.configuration, wanted)
        if not differences:
            existing.save(path)  # an earlier start may have come to its end; this one has not
            return existing
        raise InputError(
            f"{path.parent} holds results of another configuration",
            why="; ".join(differences),
            fix="Choose --fresh (set those results aside)."
            if resume
            else "Choose --resume (go on with the settings there) or --fresh (set those results aside).",
        )
    if has_results and not resume:
        raise InputError(
            f"{path.parent} holds results whose configuration is not known",
            fix="Choose --resume (add to them) or --fresh (set them aside).",
        )
    manifest = RunManifest(uuid.uuid4().hex[:12], wanted)
    manifest.save(path)
    return manifest


def _differences(there: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    found = []
    for part in ("settings", "facts"):
        new = now[part]
        old = _settings_of(there, new) if part == "settings" else there.get(part, {})
        found += [
            f"{key}: {old.get(key)!r} there, {new.get(key)!r} now"
            for key in sorted(old.keys() | new.keys())
            if old.get(key) != new.get(key)
        ]
    return found


def _settings_of(configuration: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
    """A manifest's settings, with those of the ``known`` ones that it is too old to name."""
    named: dict[str, Any] = configuration.get("settings", {})
    return {name: value for name, value in _BEFORE.items() if name in known} | named


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def set_aside(store: RolloutStore, manifest: Path) -> None:
    """Rename a store's file and its manifest to the first ``.oldN`` that is free for both.

    Raises:
        LockHeldError: someone writes the file.
    """
    with store.hold():
        number = _first_free([manifest, store.path])
        for path in (manifest, store.path):
            if path.exists():
                path.rename(path.with_name(f"{path.name}.old{number}"))


def _first_free(paths: Sequence[Path]) -> int:
    number = 1
    while any(path.with_name(f"{path.name}.old{number}").exists() for path in paths):
        number += 1
    return number
