"""The runs, libraries and trainings in some folders, found by the names of their files."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from engine.errors import InputError
from engine.storage.append_log import writer_of
from engine.storage.lines import FileStamp, file_stamp
from grpo_training.runs.folder import learner_of_library, learner_of_results, libraries_of, manifest_file
from grpo_training.runs.run import RunManifest, load_manifest
from grpo_training.runs.training_run import CONFIG_JSON
from grpo_training.view.data.evaluations import SAMPLES, Evaluation
from grpo_training.view.data.libraries import Library
from grpo_training.view.data.record_index import NotFoundError, RecordIndex, fusion_index, rollout_index

Kind = Literal["generator", "critic", "training"]
State = Literal["running", "finished", "stopped", "unknown"]
ShownT = TypeVar("ShownT", "Run", Library, Evaluation)

METRICS = "metrics.jsonl"
LANDING: Mapping[Kind, str] = {"generator": "overview", "critic": "fusions", "training": "training"}
"""The page that a run's name links to, by its kind."""
_DEPTH = 4
_RESCAN_S = 2.0
_TAU = 0.05
"""For runs without stored settings."""


@dataclass(frozen=True)
class Run:
    """One file of results with its manifest, or the folder of a training.

    Args:
        id: part of addresses; lower-case letters, digits, ``-`` and ``_``.
        kind: ``generator`` (rollouts), ``critic`` (fusions) or ``training``.
        name: such as ``generator_1``, or the folder's name for a training.
        path: the rollouts, the fusions or the metrics.
        manifest: the manifest's path; it need not exist.
    """

    id: str
    kind: Kind
    name: str
    path: Path
    manifest: Path

    @property
    def folder(self) -> Path:
        """The folder of the results."""
        return self.path.parent

    @property
    def shown_folder(self) -> str:
        """The name of the folder of the results; of a run with a name, the run's."""
        name = self.folder.parent.name if self.folder.name == "cache" else self.folder.name
        return name or self.folder.name

    def configuration(self) -> dict[str, Any]:
        """The stored settings and facts as one mapping; empty without a readable manifest."""
        manifest = _manifest(self.manifest)
        if manifest is None:
            return {}
        facts = manifest.configuration.get("facts", {})
        return {**facts, **manifest.settings}

    def model(self) -> str:
        """The model's folder or name as the stored settings have it; empty without them."""
        settings = self.configuration()
        return str(settings.get("model") or settings.get("model_name_or_path") or "")

    def is_written(self) -> bool:
        """Whether a process holds the lock of the results."""
        return writer_of(self.folder / "run" if self.kind == "training" else self.path) is not None

    def state(self) -> State:
        """Whether the run is going on, complete, or stopped before its end."""
        if self.is_written():
            return "running"
        manifest = _manifest(self.manifest)
        if manifest is None:
            return "unknown"
        return "finished" if manifest.finished else "stopped"


class Store:
    """Everything that the pages show.

    Args:
        folders: they are searched to a depth of four folders.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = [folder.resolve() for folder in folders]
        self._runs: list[Run] = []
        self._libraries: list[Library] = []
        self._evaluations: list[Evaluation] = []
        self._indexes: dict[Path, RecordIndex[Any, Any]] = {}
        self._next_scan = float("-inf")

    @property
    def runs(self) -> list[Run]:
        """All runs, in order of their folders."""
        self._scan()
        return self._runs

    @property
    def libraries(self) -> list[Library]:
        """All libraries, in order of their folders."""
        self._scan()
        return self._libraries

    @property
    def evaluations(self) -> list[Evaluation]:
        """All evaluations, in order of their folders."""
        self._scan()
        return self._evaluations

    def run(self, name: str, kind: Kind) -> Run:
        """The run of a kind with an id; raises NotFoundError if there is none."""
        return _with_id([run for run in self.runs if run.kind == kind], name)

    def library(self, name: str) -> Library:
        """The library with an id; raises NotFoundError if there is none."""
        return _with_id(self.libraries, name)

    def evaluation(self, name: str) -> Evaluation:
        """The evaluation with an id; raises NotFoundError if there is none."""
        return _with_id(self.evaluations, name)

    def beside(self, run: Run, kind: Kind) -> list[Run]:
        """The runs of a kind whose results are in the folder of a run."""
        return [other for other in self.runs if other.kind == kind and other.folder == run.folder]

    def library_of(self, run: Run) -> Library | None:
        """The library of the agent whose results these are: the one of the run, else the only one of the agent."""
        libraries = [library for library in self.libraries if library.name == run.name.partition(".")[0]]
        try:
            folder = libraries_of(run.folder).resolve()
        except InputError:  # a damaged manifest names no folder
            folder = run.folder.parent / "experiences"
        matching = [library for library in libraries if library.path.parent == folder]
        return matching[0] if matching else libraries[0] if len(libraries) == 1 else None

    def index(self, run: Run) -> RecordIndex[Any, Any]:
        """The index of a generator's rollouts or of a critic's fusions; the caller updates it."""
        if run.path not in self._indexes:
            tau = run.configuration().get("tau")
            tau = tau if isinstance(tau, int | float) and tau >= 0 else _TAU
            index = rollout_index(run.path, tau) if run.kind == "generator" else fusion_index(run.path)
            self._indexes.setdefault(run.path, index)  # another thread may have been faster
        return self._indexes[run.path]

    def stamp(self) -> tuple[object, ...]:
        """A value that changes whenever any of the files does, or an index has read more of its file."""
        runs = self.runs
        files = [*(run.path for run in runs), *(run.manifest for run in runs)]
        files += [evaluation.path for evaluation in self.evaluations]
        writers = (run.is_written() for run in runs)
        libraries = [library.stamp() for library in self.libraries]
        progress = [index.progress() for index in list(self._indexes.values())]
        return (*map(file_stamp, files), *libraries, *progress, *writers)

    def _scan(self) -> None:
        if time.monotonic() < self._next_scan:
            return
        taken: set[str] = set()
        runs: list[Run] = []
        libraries: list[Library] = []
        evaluations: list[Evaluation] = []
        for path in _files(self.folders):
            run = _run_of(path, taken)
            if run is not None:
                runs.append(run)
            elif (learner := learner_of_library(path)) is not None:
                name = _new_id(f"{path.parent.name}-{learner}-library", taken)
                libraries.append(Library(name, learner, path))
            elif (
                path.name.endswith(SAMPLES)
                and (figures := path.with_name(path.name[: -len(SAMPLES)] + ".json")).exists()
            ):
                name = _new_id(f"{path.parent.name}-{figures.stem}", taken)
                evaluations.append(Evaluation(name, figures.stem, figures))
        self._runs, self._libraries, self._evaluations = runs, libraries, evaluations
        self._next_scan = time.monotonic() + _RESCAN_S


def _with_id(known: Sequence[ShownT], name: str) -> ShownT:
    for entry in known:
        if entry.id == name:
            return entry
    raise NotFoundError(f"Nothing has the id {name!r}", fix="The page of runs, experiences or tests lists all.")


def _run_of(path: Path, taken: set[str]) -> Run | None:
    if path.name == METRICS and (path.parent / CONFIG_JSON).exists():
        return Run(_new_id(path.parent.name, taken), "training", path.parent.name, path, path.parent / CONFIG_JSON)
    results = learner_of_results(path)
    if results is None:
        return None
    learner, suffix = results
    return Run(
        _new_id(f"{path.parent.name}-{learner}{suffix}", taken),
        "critic" if learner == "critic" else "generator",
        learner + suffix,
        path,
        manifest_file(path.parent, learner, suffix),
    )


def _new_id(wanted: str, taken: set[str]) -> str:
    """An id that is not taken. Equal ones get a number in order of their paths: the same one at the next start."""
    base = re.sub(r"[^a-z0-9_-]+", "-", wanted.lower()).strip("-")[:100] or "run"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    taken.add(name)
    return name


def _files(folders: Iterable[Path]) -> Iterator[Path]:
    """The files of the folders, each once; a folder may also be a file."""
    seen: set[Path] = set()
    for folder in folders:
        for path in [folder] if folder.is_file() else _walk(folder, _DEPTH):
            if path not in seen:
                seen.add(path)
                yield path


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for path in entries:
        if path.is_file():
            yield path
        elif depth and path.is_dir() and not path.is_symlink() and not path.name.startswith((".", "checkpoint-")):
            yield from _walk(path, depth - 1)


def _manifest(path: Path) -> RunManifest | None:
    """The manifest of a file; None if it is not there or cannot be read."""
    stamp = file_stamp(path)
    return None if stamp is None else _manifest_as_of(path, stamp)


@functools.lru_cache(maxsize=4096)
def _manifest_as_of(path: Path, stamp: FileStamp) -> RunManifest | None:
    try:
        return load_manifest(path)
    except (InputError, OSError):
        return None
