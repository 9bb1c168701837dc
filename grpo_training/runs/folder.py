"""The folder of a run: the names of its files, and which run a command takes."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from engine.api_manager import GENERATORS
from engine.errors import ConfigurationError, InputError, MissingInputError
from engine.tasks.registry import load_task
from grpo_training.cli.settings import WORKING_DIR, shown_path
from grpo_training.runs.run import RunManifest, load_manifest
from grpo_training.runs.settings import RoleSettings

_RUNS = "runs"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_RESULTS = re.compile(r"(.+(?=_rollouts)|critic(?=_results))_(?:rollouts|results)\.jsonl(\.old\d+)?")
_LIBRARY = re.compile(r"(.+)_experiences\.json")

SettingsT = TypeVar("SettingsT", bound=RoleSettings)


@dataclass(frozen=True)
class RunFolder:
    """The folders of a run.

    Args:
        name: of the run; empty for the folders that hold runs without a name.
        cache: rollouts, fusions, manifests and stored replies.
        experiences: the libraries.
    """

    name: str
    cache: Path
    experiences: Path

    @property
    def folder(self) -> Path:
        """The folder of everything else, such as ``improved``."""
        return self.cache.parent

    def changed(self) -> float:
        """When its newest result, manifest or library was written; 0 without any."""
        results = [path for path in self.cache.glob("*.jsonl") if learner_of_results(path)]
        files = [*results, *self.cache.glob("*_run.json"), *self.experiences.glob("*_experiences*.json*")]
        return max((path.stat().st_mtime for path in files), default=0.0)


def results_file(cache: Path, learner: str) -> Path:
    """The rollouts of a generator, or the fusions of the critic."""
    return cache / ("critic_results.jsonl" if learner == "critic" else f"{learner}_rollouts.jsonl")


def manifest_file(cache: Path, learner: str, old: str = "") -> Path:
    """The manifest of its results; ``old`` is the ending of those that ``--fresh`` has set aside."""
    return cache / f"{learner}_run.json{old}"


def library_file(experiences: Path, learner: str) -> Path:
    """Its library."""
    return experiences / f"{learner}_experiences.json"


def learner_of_results(path: Path) -> tuple[str, str] | None:
    """Learner and ending (``.old1``, else empty) of a file of results; None for any other file."""
    match = _RESULTS.fullmatch(path.name)
    return None if match is None else (match[1], match[2] or "")


def learner_of_library(path: Path) -> str | None:
    """The learner of a library; None for any other file."""
    match = _LIBRARY.fullmatch(path.name)
    return None if match is None else match[1]


def run_folder(name: str) -> RunFolder:
    """The folders of the run with this name.

    Raises:
        InputError: the name cannot be one of a folder.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be the name of a run", fix="Use letters, digits, dots, dashes and underscores."
        )
    cache = WORKING_DIR / _RUNS / name / "cache"
    return RunFolder(name, cache, libraries_of(cache))


def unnamed_run() -> RunFolder:
    """The folders that hold runs without a name."""
    return RunFolder("", WORKING_DIR / "grpo_training/cache", WORKING_DIR / "data/grpo_experiences")


def known_runs() -> list[RunFolder]:
    """The runs with results in the working folder, the newest first."""
    named = [run_folder(path.name) for path in (WORKING_DIR / _RUNS).glob("*/") if _NAME.fullmatch(path.name)]
    changed = {run: when for run in (*named, unnamed_run()) if (when := run.changed())}
    return sorted(changed, key=changed.__getitem__, reverse=True)


def found_run(name: str | None = None, cache: Path | None = None, experiences: Path | None = None) -> RunFolder:
    """The run that a command takes: the one with this name, that of given folders, or the newest, which is printed.

    Raises:
        InputError: there is no run with this name, or both a name and folders were given.
        MissingInputError: there is no run at all.
    """
    if cache or experiences:
        return _of_folders(name, cache, experiences, lambda: next(iter(known_runs()), unnamed_run()))
    known = known_runs()
    if name is not None:
        names = ", ".join(run.name for run in known if run.name)
        fix = f"Runs: {names or 'none yet'}. A run is there as soon as its generator has printed its name."
        run = next((run for run in known if run.name == name), None)
        if run is None:
            raise InputError(f"There is no run {name!r} in {_RUNS}", fix=fix)
        return run
    if not known:
        raise MissingInputError(
            f"There is no run in {shown_path(WORKING_DIR / _RUNS)}",
            fix="Run python -m grpo_training.generator1 first, or start the command in the folder of the run.",
        )
    if len(known) > 1:
        shown = known[0].name or shown_path(known[0].cache)
        print(f"Run: {shown}, the newest of {len(known)} (--run NAME for another)", file=sys.stderr)
    return known[0]


def in_found_run(settings: SettingsT) -> SettingsT:
    """The settings with the folders of :func:`found_run`."""
    return _placed(settings, found_run(settings.run, *_given_places(settings)))


def in_own_run(settings: SettingsT, dataset: str) -> SettingsT:
    """The settings with the folders of ``--run``, or of the run of this dataset and model, except for given ones.

    Results without a name of the same dataset and model are continued where they are.

    Args:
        settings: of a generator.
        dataset: its problems.

    Raises:
        InputError: both a name and folders were given.
        ScaffoldError: the endpoints cannot be read.
    """
    cache, experiences = _given_places(settings)
    if cache or experiences:
        return _placed(settings, _of_folders(settings.run, cache, experiences, lambda: _own_run(settings, dataset)))
    return _placed(settings, run_folder(settings.run) if settings.run is not None else _own_run(settings, dataset))


def libraries_of(cache: Path) -> Path:
    """The folder of the libraries of a cache: beside it, or as a manifest names it."""
    if cache.resolve() == unnamed_run().cache.resolve():
        return unnamed_run().experiences
    beside = cache.parent / "experiences"
    named = (Path(manifest.experiences) for manifest in _manifests(cache) if manifest.experiences)
    return beside if beside.is_dir() else next((path for path in named if path.is_dir()), beside)


def automatic_name(dataset: str, model: str) -> str:
    """The name of a run that has none: another dataset or model is another run."""
    path = Path(dataset)
    base = path.stem if path.suffix or path.is_absolute() else dataset
    slugs = (re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.") for text in (base, Path(model).name))
    return "-".join(filter(None, slugs))[:100] or "run"


def model_of(settings: RoleSettings) -> str:
    """The model of the first generator with a usable entry: the generators of a run share its folder.

    Keys are not needed: whoever starts first may have no other key than its own.

    Raises:
        ScaffoldError: the endpoints cannot be read.
    """
    if settings.endpoint == "local":
        return str(settings.local_model)
    if settings.model is not None:
        return settings.model
    manager = settings.load_endpoints().without_keys()
    for role in filter(manager.has, GENERATORS):
        with contextlib.suppress(ConfigurationError):
            return manager.local_model(role) or manager.endpoint(role).model
    return manager.endpoint(GENERATORS[0]).model


def load_tasks_of(cache: Path, *, given: str | None = None) -> None:
    """Make the tasks known that the results of a cache were made with, so that ``--task`` need not be repeated.

    Args:
        cache: the folder.
        given: a task that the command was given.

    Raises:
        MissingInputError: a task of a user's file is not there any more.
        InputError: it cannot be loaded.
    """
    if given is not None:
        load_task(given)
        return
    for manifest in _manifests(cache):
        task = manifest.settings.get("task")
        if isinstance(task, str) and ":" in task:
            try:
                load_task(task)
            except MissingInputError as error:
                why = f"The results in {shown_path(cache)} were made with its task."
                raise MissingInputError(
                    error.what, why=why, fix="If it was moved, name it: --task FILE.py:NAME."
                ) from None


def _own_run(settings: RoleSettings, dataset: str) -> RunFolder:
    model, unnamed = model_of(settings), unnamed_run()
    named = run_folder(automatic_name(dataset, model))
    begun = () if named.changed() else _manifests(unnamed.cache)
    if any((manifest.settings.get("dataset"), manifest.facts.get("model")) == (dataset, model) for manifest in begun):
        print(f"Continuing the results in {shown_path(unnamed.cache)}")
        return unnamed
    return named


def _of_folders(
    name: str | None, cache: Path | None, experiences: Path | None, otherwise: Callable[[], RunFolder]
) -> RunFolder:
    """The run of given folders: with the libraries of the cache, or with the cache of the run that has these libraries,
    else of ``otherwise``.
    """
    if name is not None:
        raise InputError(
            f"--run and {'--cache-dir' if cache else '--experiences-dir'} exclude each other",
            fix="For one other folder, name both instead of the run: "
            f"--cache-dir {_RUNS}/{name}/cache --experiences-dir DIR.",
        )
    if cache is None:
        owners = (run for run in known_runs() if experiences and run.experiences.resolve() == experiences.resolve())
        cache = (next(owners, None) or otherwise()).cache
    if experiences is None:
        experiences = libraries_of(cache)
    return RunFolder("", cache, experiences)


def _manifests(cache: Path) -> Iterator[RunManifest]:
    """The manifests in a cache, read one at a time."""
    yield from filter(None, map(load_manifest, sorted(cache.glob("*_run.json"))))


def _given_places(settings: RoleSettings) -> tuple[Path | None, Path | None]:
    """The folders of cache and libraries that settings name."""
    given = settings.model_fields_set
    return (
        settings.cache_dir if "cache_dir" in given else None,
        settings.experiences_dir if "experiences_dir" in given else None,
    )


def _placed(settings: SettingsT, run: RunFolder) -> SettingsT:
    """The settings with the folders of a run. If one folder was given, the other one is printed."""
    cache, experiences = _given_places(settings)
    if experiences and not cache:
        print(f"--cache-dir is {shown_path(run.cache)}", file=sys.stderr)
    elif cache and not experiences:
        print(f"--experiences-dir is {shown_path(run.experiences)}", file=sys.stderr)
    return settings.model_copy(
        update={"run": run.name or None, "cache_dir": run.cache, "experiences_dir": run.experiences}
    )
