"""The runs, libraries and trainings in some folders, found by the names of their files."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.errors import InputError
from engine.storage.append_log import writer_of
from engine.storage.file_stamp import FileStamp, file_stamp
from grpo_training.runs.directory import CONFIG_JSON
from grpo_training.runs.learner_files import learner_of_library, learner_of_results, manifest_file
from grpo_training.runs.manifest import RunManifest, load_manifest
from grpo_training.view.data.evaluations import SAMPLES, Evaluation
from grpo_training.view.data.file_index import NotFoundError
from grpo_training.view.data.fusions import FusionIndex
from grpo_training.view.data.index import RolloutIndex
from grpo_training.view.data.libraries import Library, LibraryIndex
from grpo_training.view.data.own_tasks import load_task_of

Kind = Literal["generator", "critic", "training"]
State = Literal["running", "finished", "stopped", "unknown"]

METRICS = "metrics.jsonl"
LANDING: Mapping[Kind, str] = {"generator": "overview", "critic": "fusions", "training": "training"}
"""The page that a run's name links to, by its kind."""
_DEPTH = 4
_MAX_FILES = 50_000
_RESCAN_S = 2.0
_SCAN_SHARE = 20
"""The folders are searched again after twenty times as long as it took."""
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
        own = self.folder.parent.name if self.folder.name == "cache" else self.folder.name
        return own or self.folder.name

    def size(self) -> int:
        """Of the file, in bytes; 0 if it is not there."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

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

    def experiences(self) -> Path | None:
        """The folder of the libraries that the manifest names; None if it names none."""
        manifest = _manifest(self.manifest)
        return Path(manifest.experiences) if manifest is not None and manifest.experiences else None

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
        return "finished" if manifest.is_finished else "stopped"


class Store:
    """Everything that the pages show.

    Args:
        folders: they are searched to a depth of four folders, and 50,000 files in all; ``is_cut``: there are more.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = [folder.resolve() for folder in folders]
        self._runs: dict[str, Run] = {}
        self._libraries: dict[str, Library] = {}
        self._evaluations: dict[str, Evaluation] = {}
        self.library_index = LibraryIndex()
        self._indexes: dict[Path, RolloutIndex] = {}
        self._fusions: dict[Path, FusionIndex] = {}
        self._tasks_tried: set[tuple[str, Path]] = set()
        self._next_scan = float("-inf")
        self._visits, self._no_visit = 0, threading.Condition()
        self.is_cut = False

    @contextlib.contextmanager
    def visit(self) -> Iterator[None]:
        """Mark that a page is being made during the block."""
        with self._no_visit:
            self._visits += 1
        try:
            yield
        finally:
            with self._no_visit:
                self._visits -= 1
                self._no_visit.notify_all()

    def wait_for_visits(self, longest_s: float) -> bool:
        """Wait until no page is being made, at most ``longest_s`` seconds. Returns whether none is."""
        with self._no_visit:
            return self._no_visit.wait_for(lambda: not self._visits, longest_s)

    @property
    def runs(self) -> list[Run]:
        """All runs, in order of their folders."""
        self._scan()
        return list(self._runs.values())

    @property
    def libraries(self) -> list[Library]:
        """All libraries, in order of their folders."""
        self._scan()
        return list(self._libraries.values())

    @property
    def evaluations(self) -> list[Evaluation]:
        """All evaluations, in order of their folders."""
        self._scan()
        return list(self._evaluations.values())

    def evaluation(self, name: str) -> Evaluation:
        """The evaluation with an id.

        Raises:
            NotFoundError: there is none.
        """
        self._scan()
        if name not in self._evaluations:
            raise NotFoundError(f"No evaluation {name!r}", fix="The page of evaluations lists all that were found.")
        return self._evaluations[name]

    def run(self, name: str, *kinds: Kind) -> Run:
        """The run with an id.

        Raises:
            NotFoundError: there is none of these kinds.
        """
        self._scan()
        run = self._runs.get(name)
        if run is None or (kinds and run.kind not in kinds):
            raise NotFoundError(f"No run {name!r}", fix="The list of runs shows all that were found.")
        return run

    def library(self, name: str) -> Library:
        """The library with an id.

        Raises:
            NotFoundError: there is none.
        """
        self._scan()
        if name not in self._libraries:
            raise NotFoundError(f"No library {name!r}", fix="The page of experiences lists all that were found.")
        return self._libraries[name]

    def beside(self, run: Run, kind: Kind) -> list[Run]:
        """The runs of a kind whose results are in the folder of a run."""
        return [one for one in self.runs if one.kind == kind and one.folder == run.folder]

    def library_of(self, run: Run) -> Library | None:
        """The library of the agent whose results these are; None if it is not among the folders.

        It is beside the results in a run with a name, or in the folder that the manifest names. Without either it is
        the only one of the agent.
        """
        found = [one for one in self.libraries if one.name == run.name.partition(".")[0]]
        for folder in (run.folder.parent / "experiences", run.experiences()):
            own = [one for one in found if folder is not None and one.path.parent == folder.resolve()]
            if own:
                return own[0]
        return found[0] if len(found) == 1 else None

    def load_task_of(self, run: Run) -> None:
        """Make the task known that a run names; see :mod:`grpo_training.view.data.own_tasks`. Tried once for each."""
        place = str(run.configuration().get("task") or "")
        if ":" in place and (place, run.folder) not in self._tasks_tried:
            self._tasks_tried.add((place, run.folder))
            load_task_of(run.configuration(), [*self.folders, run.folder.parent])

    def index(self, run: Run) -> RolloutIndex:
        """The index of a generator's rollouts; the caller updates it."""
        known = self._indexes.get(run.path)
        if known is None:
            tau = run.configuration().get("tau")
            made = RolloutIndex(run.path, tau if isinstance(tau, int | float) and tau >= 0 else _TAU)
            known = self._indexes.setdefault(run.path, made)  # another thread may have been faster
        return known

    def fusions(self, run: Run) -> FusionIndex:
        """The index of a critic's results; the caller updates it."""
        return self._fusions.setdefault(run.path, FusionIndex(run.path))

    def stamp(self) -> tuple[object, ...]:
        """A value that changes whenever any of the files does, or an index has read more of its file."""
        runs = self.runs
        files = [*(run.path for run in runs), *(run.manifest for run in runs)]
        files += [one.path for one in self.evaluations]
        indexes: list[RolloutIndex | FusionIndex] = [*self._indexes.values(), *self._fusions.values()]
        writers = (run.is_written() for run in runs)
        libraries = [library.stamp() for library in self.libraries]
        progress = [*(index.progress() for index in indexes), self.library_index.version]
        return (*map(file_stamp, files), *libraries, *progress, *writers)

    def _scan(self) -> None:
        started = time.monotonic()
        if started < self._next_scan:
            return
        taken: set[str] = set()
        runs: dict[str, Run] = {}
        libraries: dict[str, Library] = {}
        evaluations: dict[str, Evaluation] = {}
        count = 0
        for count, path in enumerate(_files(self.folders), 1):
            if count > _MAX_FILES:
                break
            run = _run_of(path, taken)
            if run is not None:
                runs[run.id] = run
            elif (learner := learner_of_library(path)) is not None:
                name = _new_id(f"{path.parent.name}-{learner}-library", taken)
                libraries[name] = Library(name, learner, path)
            elif (
                path.name.endswith(SAMPLES)
                and (figures := path.with_name(path.name[: -len(SAMPLES)] + ".json")).exists()
            ):
                name = _new_id(f"{path.parent.name}-{figures.stem}", taken)
                evaluations[name] = Evaluation(name, figures.stem, figures)
        self._runs, self._libraries, self._evaluations = runs, libraries, evaluations
        self.is_cut = count > _MAX_FILES
        ended = time.monotonic()
        self._next_scan = ended + max(_RESCAN_S, _SCAN_SHARE * (ended - started))


def _run_of(path: Path, taken: set[str]) -> Run | None:
    if path.name == METRICS and (path.parent / CONFIG_JSON).exists():
        return Run(_new_id(path.parent.name, taken), "training", path.parent.name, path, path.parent / CONFIG_JSON)
    found = learner_of_results(path)
    if found is None:
        return None
    learner, old = found
    return Run(
        _new_id(f"{path.parent.name}-{learner}{old}", taken),
        "critic" if learner == "critic" else "generator",
        learner + old,
        path,
        manifest_file(path.parent, learner, old),
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
