"""One run on disk: its results, the manifest that says what they were made with, and the lock of their one writer."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO, TypeVar

from pydantic import BaseModel, Field, ValidationError

from engine.errors import InputError
from engine.storage.append_log import write_file
from engine.storage.lines import file_stamp
from grpo_training.runs.settings import HOW_ASKED, ResumableSettings

SettingsT = TypeVar("SettingsT", bound=ResumableSettings)
ModelT = TypeVar("ModelT", bound=BaseModel)

_OF_DATASET = ("fields", "columns", "compare", "json_schema")
"""How a dataset is read."""
OPEN = "open"
"""In the report of a run whose other problems are complete: the problems that are open, with the reason."""

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


class OtherRunError(InputError):
    """The stored results are of another configuration, or of an unknown one."""


class RunManifest(BaseModel):
    """The content of a manifest file.

    Args:
        path: the file.
        run: unique id of the run; the library's log refers to it.
        finished: whether an earlier start completed the run.
        configuration: ``settings`` (fields that change the results) and ``facts`` (what else does), as JSON values.
        experiences: folder of the libraries of the run; empty if they are beside the folder of the manifest.
        asked_early: number of a step that was asked beyond the window -> how many steps the library of its prompts had.
        stamp, report: what :meth:`finish` was given.
    """

    path: Path = Field(exclude=True)
    run: str
    finished: bool
    configuration: dict[str, dict[str, Any]]
    experiences: str = ""
    asked_early: dict[int, int] = {}
    stamp: str = ""
    report: dict[str, Any] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The stored settings."""
        return self.configuration.get("settings", {})

    @property
    def facts(self) -> dict[str, Any]:
        """The stored facts."""
        return self.configuration.get("facts", {})

    @property
    def window(self) -> int | None:
        """The window of the run; None if it has none."""
        return self.settings.get("window")

    @property
    def open(self) -> list[str]:
        """The problems that are open although the run has ended, with the reason."""
        return list((self.report or {}).get(OPEN, ()))

    def finish(self, report: Mapping[str, Any] | None = None, stamp: str = "") -> None:
        """Record that the run is complete.

        Args:
            report: what a later start prints in place of reading the results again, as JSON values.
            stamp: of what the report was made of; see :func:`stamp_of`. Without it a later start reads the results.
        """
        self.model_copy(update={"finished": True, "stamp": stamp, "report": report and dict(report)}).save()

    def report_of(self, stamp: str) -> dict[str, Any] | None:
        """The report of a complete run; None if it has none, or what it was made of has changed since."""
        return self.report if self.finished and self.stamp == stamp else None

    def note_early(self, step: int, steps_before: int) -> None:
        """Record durably that a step of this unfinished run is asked with the library after ``steps_before`` steps."""
        self.asked_early[step] = steps_before
        self.save_unfinished()

    def save_unfinished(self) -> None:
        """Write the file as that of a run that goes on, whatever an earlier start has completed."""
        self.model_copy(update={"finished": False, "stamp": "", "report": None}).save()

    def save(self) -> None:
        """Write the file atomically."""
        content = json.dumps(self.model_dump(exclude_defaults=True), indent=2, ensure_ascii=False)
        write_file(self.path, content.encode(errors="replace") + b"\n")

    def differences(self, settings: ResumableSettings, facts: Mapping[str, Any]) -> dict[str, str]:
        """A text for each setting or fact that differs, such as ``tau: stored 0.05, given 0.2``.

        Args:
            settings, facts: of this start, as :meth:`Run.open` takes them.
        """
        now = json.loads(json.dumps(facts))
        pairs = ((settings.compared(self.settings), settings.fingerprint()), (self.facts, now))
        return {
            key: f"{key}{_made_of(key)}: stored {_as_written(stored.get(key))}, given {_as_written(given.get(key))}"
            for stored, given in pairs
            for key in sorted(stored.keys() | given.keys())
            if stored.get(key) != given.get(key)
        }

    def check_same(self, settings: ResumableSettings, facts: Mapping[str, Any]) -> None:
        """Raise ``OtherRunError`` if the results are of another configuration; the arguments of :meth:`differences`."""
        differences = self.differences(settings, facts)
        if differences:
            has_settings = bool(differences.keys() & settings.fingerprint().keys())
            resume = "--resume to continue with the stored settings, " if has_settings and not settings.resume else ""
            fix = f"Pass {resume}--fresh to set the stored results aside, or another --run or folder to keep both."
            raise OtherRunError(
                f"{self.path.parent} holds results of another configuration",
                why="; ".join(differences.values()),
                fix=fix,
            )


def load_manifest(path: Path) -> RunManifest | None:
    """Read a manifest; None if there is no such file.

    Raises:
        InputError: the file is damaged.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return RunManifest.model_validate({**json.loads(content), "path": path})
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"Cannot read {path}",
            why=f"It is not a manifest: {type(error).__name__}: {error}"[:300],
            fix="Pass --fresh to set the results aside and start over.",
        ) from None


def as_in_learning(settings: ModelT, manifest: Path, stream: TextIO) -> ModelT:
    """The settings with the prompts and the sampling of a run, and how it read its dataset, where they are not given.

    Args:
        settings: of a command that asks with the library of the run.
        manifest: of the run; the file need not exist.
        stream: where the settings that are taken over are named.
    """
    run = load_manifest(manifest)
    stored = {} if run is None else run.settings
    given = {name: getattr(settings, name) for name in type(settings).model_fields}
    names = ("task", *HOW_ASKED, *(_OF_DATASET if stored.get("dataset") == given["dataset"] else ()))
    of_run = {
        name: stored[name]
        for name in names
        if name not in settings.model_fields_set and stored.get(name) not in (None, given[name])
    }
    if of_run:
        flags = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in of_run.items())
        print(f"As in learning: {flags}", file=stream)
    return settings.model_copy(update=of_run)


def hash_of(value: Any) -> str:
    """A short hash of a JSON value, for a manifest or an event that is compared with later ones."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:12]


def stamp_of(inputs: Any, files: Sequence[Path]) -> str:
    """A digest that changes with the inputs of a run, and whenever one of its files is written or replaced.

    Args:
        inputs: as a JSON value.
        files: those that the run reads or writes.
    """
    return hashlib.sha256(json.dumps([inputs, [(path.name, file_stamp(path)) for path in files]]).encode()).hexdigest()


class Lock(Protocol):
    """What makes this process the only writer, such as ``RolloutStore`` or ``AppendLog``."""

    def hold(self) -> contextlib.AbstractContextManager[Any]:
        """Hold the lock for the length of the block; ``LockHeldError`` if another process holds it."""


class Run:
    """The results of one run, of which a command makes what is missing.

    Every command that stores results uses it in the same way. Its settings derive from
    :class:`~grpo_training.runs.settings.ResumableSettings`, which has ``--resume`` and ``--fresh`` and names the fields
    that change the results (its fingerprint)::

        store = RolloutStore(settings.cache_dir / "critic_results.jsonl")
        run = Run(settings.cache_dir / "critic_run.json", [store.path], lock=store)
        settings = run.resumed(settings)                    # --resume: the stored settings
        problems = load_problems(settings.dataset)          # input errors come before --fresh renames anything
        facts = {"model": "qwen3-8b", "prompt_hash": "…"}   # what changes the results and is no setting
        with run.open(settings, facts) as manifest:         # lock; --fresh; refuse results of another configuration
            for problem in problems: ...                    # read what is stored, append what is missing
            manifest.finish()

    Args:
        manifest: the manifest's path.
        results: the files that the manifest describes. ``--fresh`` renames them together with it.
        lock: held while the run is open.
        experiences: folder of the libraries that the results belong to; the manifest names it if it is another one
            than that beside the folder of the manifest.
    """

    def __init__(self, manifest: Path, results: Sequence[Path], *, lock: Lock, experiences: Path | None = None) -> None:
        self.manifest, self.results, self.lock = manifest, results, lock
        is_usual = experiences is None or experiences.resolve() == manifest.resolve().parent.parent / "experiences"
        self._experiences = "" if is_usual else str(experiences)

    def resumed(self, settings: SettingsT) -> SettingsT:
        """With ``--resume``, the settings with the stored values; else the settings as they are.

        Results without a manifest are added to with the settings as they are.

        Raises:
            InputError: there is nothing to resume, or the manifest is damaged or holds settings that are not valid now.
        """
        if not settings.resume:
            return settings
        manifest = load_manifest(self.manifest)
        if manifest is None and not self.has_results():
            raise InputError(
                f"No run to resume in {self.manifest.parent}",
                why=f"There is no {self.manifest.name}, and there are no results.",
                fix="Leave --resume out to begin a run there, or give the folder of the run that you mean.",
            )
        try:
            return settings.model_validate(settings.model_dump() | (manifest.settings if manifest else {}))
        except ValidationError as error:
            raise InputError(f"The stored settings are not valid: {self.manifest}", why=str(error)) from None

    def stored(self, settings: ResumableSettings) -> RunManifest | None:
        """The manifest of the results that this start continues; None if there are none.

        Raises:
            InputError: the manifest is damaged.
        """
        return None if settings.fresh else load_manifest(self.manifest)

    def finished(self, settings: ResumableSettings, facts: Mapping[str, Any]) -> RunManifest | None:
        """The manifest of results that an earlier start has completed with the same configuration; else None.

        Args:
            settings, facts: as :meth:`open`.

        Raises:
            InputError: the manifest is damaged.
        """
        manifest = self.stored(settings)
        if manifest is None or not manifest.finished or not self.has_results():
            return None
        return None if manifest.differences(settings, facts) else manifest

    def check(self, settings: ResumableSettings, facts: Mapping[str, Any]) -> None:
        """Refuse settings of another configuration before anything is started that needs time.

        Args:
            settings: after :meth:`resumed`.
            facts: those that are known before.

        Raises:
            InputError: the results are of other settings.
        """
        manifest = self.stored(settings)
        if manifest is not None and self.has_results():
            manifest.check_same(settings, {**manifest.facts, **facts})

    @contextlib.contextmanager
    def open(self, settings: ResumableSettings, facts: Mapping[str, Any]) -> Iterator[RunManifest]:
        """Hold the lock and yield the manifest of the run.

        It is unfinished on disk; ``finished`` says whether an earlier start had completed it.

        Args:
            settings: after :meth:`resumed`.
            facts: what changes the results and is no setting, as JSON values: models, prompt hashes, data hashes.

        Raises:
            OtherRunError: the results are of another configuration, or of an unknown one without ``--resume``.
            LockHeldError: another process writes them.
        """
        if settings.fresh:
            with self.lock.hold():
                self.set_aside()
        with self.lock.hold():  # taken again, as a lock may keep open the file that was renamed
            wanted = json.loads(json.dumps({"settings": settings.fingerprint(), "facts": dict(facts)}))
            manifest, has_results = load_manifest(self.manifest), self.has_results()
            if manifest is not None and (has_results or manifest.configuration == wanted):
                manifest.check_same(settings, facts)
            elif has_results and not settings.resume:
                raise OtherRunError(
                    f"{self.manifest.parent} holds results of an unknown configuration "
                    f"({self.manifest.name} is missing)",
                    fix="Pass --resume to add to them, or --fresh to set them aside.",
                )
            else:
                run = uuid.uuid4().hex[:12]
                manifest = RunManifest(path=self.manifest, run=run, finished=False, configuration=wanted)
            manifest = manifest.model_copy(update={"configuration": wanted, "experiences": self._experiences})
            manifest.save_unfinished()
            yield manifest

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


def _made_of(key: str) -> str:
    """What a digest is made of; empty for a fact or setting that says it itself."""
    return f" ({_DIGESTS[key]})" if key in _DIGESTS else ""


def _as_written(value: Any) -> str:
    """A value as a person writes it on a command line or in YAML."""
    if value is None:
        return "nothing"
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _old(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.old{number}")
