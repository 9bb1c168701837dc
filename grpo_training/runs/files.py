"""The files of a run: results, their manifest and the lock of their one writer."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from engine.errors import InputError
from grpo_training.runs.manifest import (
    OtherRunError,
    RunManifest,
    check_same_configuration,
    is_same_configuration,
    load_manifest,
)
from grpo_training.runs.settings import ResumableSettings

SettingsT = TypeVar("SettingsT", bound=ResumableSettings)


class Lock(Protocol):
    """What makes this process the only writer, such as ``RolloutStore`` or ``AppendLog``."""

    def hold(self) -> contextlib.AbstractContextManager[Any]:
        """Hold the lock for the length of the block; ``LockHeldError`` if another process holds it."""


class RunFiles:
    """The result files of one run. See the package's docstring for how a command uses them.

    Args:
        manifest: the manifest's path.
        results: the files that the manifest describes. ``--fresh`` renames them together with it.
        lock: held while the run is open.
        temporary: those of ``results`` that a complete run deletes.
        experiences: folder of the libraries that the results belong to; the manifest names it.
    """

    def __init__(
        self,
        manifest: Path,
        results: Sequence[Path],
        *,
        lock: Lock,
        temporary: Sequence[Path] = (),
        experiences: Path | None = None,
    ) -> None:
        self.manifest = manifest
        self.results = results
        self._lock, self._experiences = lock, experiences
        self._kept = [path for path in (manifest, *results) if path not in temporary]

    def resumed(self, settings: SettingsT) -> SettingsT:
        """With ``--resume``, the settings with the stored values; else the settings as they are.

        A setting that the manifest does not name, because it was written by an earlier version, has its default.
        Results without a manifest are added to with the settings as they are.

        Raises:
            InputError: there is nothing to resume, or the manifest is damaged or holds settings that are not valid now.
        """
        if not settings.resume:
            return settings
        manifest = load_manifest(self.manifest)
        if manifest is None:
            if not self.has_results():
                raise InputError(
                    f"No run to resume in {self.manifest.parent}",
                    why=f"There is no {self.manifest.name}, and there are no results.",
                    fix="Leave --resume out to begin a run there, or give the folder of the run that you mean.",
                )
            return settings
        try:
            return type(settings).model_validate(
                settings.model_dump() | settings.compared({}) | settings.of_stored(manifest.settings)
            )
        except ValidationError as error:
            raise InputError(f"The stored settings are not valid: {self.manifest}", why=str(error)) from None

    def stored_window(self, settings: ResumableSettings) -> int | None:
        """The window of the results that this start continues; None if there are none.

        Raises:
            InputError: the manifest is damaged.
        """
        manifest = None if settings.fresh else load_manifest(self.manifest)
        return None if manifest is None else manifest.window

    def finished(self, settings: ResumableSettings, facts: Mapping[str, Any]) -> RunManifest | None:
        """The manifest of results that an earlier start has completed with the same configuration; else None.

        Args:
            settings, facts: as :meth:`open`.

        Raises:
            InputError: the manifest is damaged.
        """
        manifest = None if settings.fresh else load_manifest(self.manifest)
        if manifest is None or not manifest.is_finished or not self.has_results():
            return None
        wanted = {"settings": settings.fingerprint(), "facts": facts}
        return manifest if is_same_configuration(manifest, wanted, settings.compared) else None

    def check(self, settings: ResumableSettings, facts: Mapping[str, Any]) -> None:
        """Refuse settings of another configuration before anything is started that needs time.

        Args:
            settings: after :meth:`resumed`.
            facts: those that are known before.

        Raises:
            InputError: the results are of other settings.
        """
        manifest = None if settings.fresh else load_manifest(self.manifest)
        if manifest is not None and self.has_results():
            wanted = {"settings": settings.fingerprint(), "facts": {**manifest.facts, **facts}}
            check_same_configuration(manifest, wanted, settings)

    def hold(self) -> contextlib.AbstractContextManager[Any]:
        """Hold the lock for the block, before :meth:`open` holds it anew.

        Raises:
            LockHeldError: another process writes the results.
        """
        return self._lock.hold()

    @contextlib.contextmanager
    def open(
        self, settings: ResumableSettings, facts: Mapping[str, Any], groups: int | None = None
    ) -> Iterator[RunManifest]:
        """Hold the lock and yield the manifest of the run.

        Args:
            settings: after :meth:`resumed`.
            facts: what changes the results and is no setting, as JSON values: models, prompt hashes, data hashes.
            groups: how many groups this start makes, for others that read the manifest; None: not known.

        Raises:
            InputError: the results are of another configuration.
            LockHeldError: another process writes them.
        """
        if settings.fresh:
            with self._lock.hold():
                self.set_aside()
        with self._lock.hold():  # taken again, as a lock may keep open the file that was renamed
            manifest = self._begun(settings, facts, groups)
            known = [path for path in self._kept if path.exists()]
            yield manifest
            for path in known:
                if not path.exists():
                    raise InputError(
                        f"{path} was deleted or moved while the run was active",
                        fix="Put it back if it was moved, and run the same command again.",
                    )

    def _begun(self, settings: ResumableSettings, facts: Mapping[str, Any], groups: int | None) -> RunManifest:
        """The manifest of the run that is continued, or of a new one.

        It is unfinished on disk; ``is_finished`` says whether an earlier start had completed it.

        Raises:
            OtherRunError: the results are of another configuration, or of an unknown one without ``--resume``.
        """
        wanted = json.loads(json.dumps({"settings": settings.fingerprint(), "facts": dict(facts)}))
        experiences = "" if self._experiences is None else str(self._experiences)
        existing, has_results = load_manifest(self.manifest), self.has_results()
        if existing is not None and (has_results or existing.configuration == wanted):
            check_same_configuration(existing, wanted, settings)
            existing = dataclasses.replace(
                existing,
                configuration={**existing.configuration, "settings": {**existing.settings, **wanted["settings"]}},
                experiences=experiences or existing.experiences,
                groups=groups,
            )
            dataclasses.replace(existing, is_finished=False, stamp="", report=None).save()
            return existing
        if has_results and not settings.resume:
            raise OtherRunError(
                f"{self.manifest.parent} holds results of an unknown configuration ({self.manifest.name} is missing)",
                fix="Pass --resume to add to them, or --fresh to set them aside.",
            )
        manifest = RunManifest(self.manifest, uuid.uuid4().hex[:12], wanted, experiences=experiences, groups=groups)
        manifest.save()
        return manifest

    def has_results(self) -> bool:
        """Whether any result file has content."""
        return any(path.exists() and path.stat().st_size for path in self.results)

    def set_aside(self) -> None:
        """Rename the manifest and the results to the first ``.oldN`` that is free for all of them."""
        paths = [self.manifest, *self.results]
        number = next(n for n in itertools.count(1) if not any(_old(path, n).exists() for path in paths))
        for path in paths:
            if path.exists():
                path.rename(_old(path, number))


def _old(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.old{number}")
