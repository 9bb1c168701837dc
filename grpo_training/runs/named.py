"""Runs with names: one folder each, with its cache, its libraries and what was proven of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from engine.api_manager import GENERATORS
from engine.errors import InputError, MissingInputError
from engine.tasks.registry import load_task
from grpo_training.cli.settings import WORKING_DIR, as_flag, shown_path
from grpo_training.runs.learner_files import manifest_file
from grpo_training.runs.manifest import RunManifest, load_manifest
from grpo_training.runs.settings import PLACES, RoleSettings

_RUNS = "runs"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_RESULTS = ("*_rollouts.jsonl", "critic_results.jsonl", "*_run.json", "*_experiences.json")

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

    @property
    def flags(self) -> list[str]:
        """The flags that name the run on a command line."""
        return ["--run", self.name] if self.name else []

    def changed(self) -> float:
        """When its newest result was written; 0 without results."""
        folders = (self.cache, self.experiences)
        files = (path for folder in folders for pattern in _RESULTS for path in folder.glob(pattern))
        return max((path.stat().st_mtime for path in files), default=0.0)


def run_folder(name: str) -> RunFolder:
    """The folders of the run with this name.

    Raises:
        InputError: the name cannot be one of a folder.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be the name of a run", fix="Use letters, digits, dots, dashes and underscores."
        )
    folder = WORKING_DIR / _RUNS / name
    return RunFolder(name, folder / "cache", folder / "experiences")


def unnamed_run() -> RunFolder:
    """The folders that hold runs without a name."""
    return RunFolder("", WORKING_DIR / "grpo_training/cache", WORKING_DIR / "data/grpo_experiences")


def known_runs() -> list[RunFolder]:
    """The runs with results in the working folder, the newest first."""
    named = [run_folder(path.name) for path in (WORKING_DIR / _RUNS).glob("*/") if _NAME.fullmatch(path.name)]
    found = [run for run in (*named, unnamed_run()) if run.changed()]
    return sorted(found, key=RunFolder.changed, reverse=True)


def found_run(name: str | None) -> RunFolder:
    """A run that has results: the one with this name, or the newest, which is printed.

    Raises:
        InputError: there is no run with this name.
        MissingInputError: there is no run at all.
    """
    known = known_runs()
    if name is not None:
        found = next((run for run in known if run.name == name), None)
        if found is None:
            names = ", ".join(run.name for run in known if run.name)
            fix = f"Runs: {names or 'none yet'}. A run is there as soon as its generator has printed its name."
            raise InputError(f"There is no run {name!r} in {_RUNS}", fix=fix)
        return found
    if not known:
        raise MissingInputError(
            f"There is no run in {shown_path(WORKING_DIR / _RUNS)}",
            fix="Run python -m grpo_training.generator1 first, or start the command in the folder of the run.",
        )
    if len(known) > 1:
        shown = known[0].name or shown_path(known[0].cache)
        print(f"Run: {shown}, the newest of {len(known)} (--run NAME for another)", file=sys.stderr)
    return known[0]


def places(run: str | None, cache: Path | None, experiences: Path | None) -> tuple[Path, Path]:
    """Cache and libraries of a run, by default of the newest; or the given folders.

    Raises:
        InputError, MissingInputError: as :func:`found_run`, and both a name and folders were given.
    """
    if cache is None and experiences is None:
        found = found_run(run)
        return found.cache, found.experiences
    if run is not None:
        raise InputError("--run and --cache-dir or --experiences-dir exclude each other", fix=_both_folders(run))
    return cache or unnamed_run().cache, experiences or (libraries_of(cache) if cache else unnamed_run().experiences)


def automatic_name(dataset: str, model: str) -> str:
    """The name of a run that has none: another dataset or model is another run."""
    path = Path(dataset)
    base = path.stem if path.suffix or path.is_absolute() else dataset
    return "-".join(filter(None, (_slug(base), _slug(Path(model).name))))[:100] or "run"


def own_name(settings: RoleSettings, dataset: str) -> str:
    """The name of the run of a dataset and the model that settings name.

    Raises:
        ScaffoldError: the endpoints cannot be read.
    """
    return automatic_name(dataset, _model(settings))


def in_found_run(settings: SettingsT) -> SettingsT:
    """The settings with the folders of ``--run``, or of the newest run; unchanged if folders were given.

    Raises:
        InputError, MissingInputError: as :func:`found_run`, and both a name and folders were given.
    """
    return settings if _has_places(settings) else _placed(settings, found_run(settings.run))


def in_own_run(settings: SettingsT, dataset: str, role: str) -> SettingsT:
    """The settings with the folders of ``--run``, or of the run of this dataset and model.

    Results without a name that an earlier version made with the same dataset and model are continued where they are.

    Args:
        settings: of a generator.
        dataset: its problems.
        role: of the generator.

    Raises:
        InputError: both a name and folders were given.
        ScaffoldError: the endpoints cannot be read.
    """
    if _has_places(settings):
        return settings
    if settings.run is not None:
        return _placed(settings, run_folder(settings.run))
    model = _model(settings)
    earlier = unnamed_run()
    manifest = load_manifest(manifest_file(earlier.cache, role))
    if manifest is not None:
        made_with = (manifest.settings.get("dataset"), manifest.configuration.get("facts", {}).get("model"))
        if made_with == (dataset, model):
            print(f"Continuing the results in {shown_path(earlier.cache)}")
            return _placed(settings, earlier)
    return _placed(settings, run_folder(automatic_name(dataset, model)))


def load_tasks_of(cache: Path, *, given: str | None = None) -> None:
    """Make the tasks known that the results of a cache were made with, so that ``--task`` need not be repeated.

    Args:
        cache: the folder.
        given: a task that the command was given.

    Raises:
        InputError: a task of a user's file is not there any more.
    """
    if given is not None:
        load_task(given)
        return
    for manifest in _manifests(cache):
        task = manifest.settings.get("task")
        if isinstance(task, str) and ":" in task:
            load_task(task)


def libraries_of(cache: Path) -> Path:
    """The folder of the libraries of a cache: beside it in a run, else the recorded one, else that of unnamed runs."""
    beside = cache.parent / "experiences"
    if beside.is_dir():
        return beside
    for manifest in _manifests(cache):
        if manifest.experiences and Path(manifest.experiences).is_dir():
            return Path(manifest.experiences)
    return unnamed_run().experiences


def _manifests(cache: Path) -> Iterator[RunManifest]:
    """The manifests in a cache, read one at a time."""
    yield from filter(None, map(load_manifest, sorted(cache.glob("*_run.json"))))


def _has_places(settings: RoleSettings) -> bool:
    given = [name for name in PLACES if name in settings.model_fields_set]
    if given and settings.run is not None:
        raise InputError(f"--run and {as_flag(given[0])} exclude each other", fix=_both_folders(settings.run))
    return bool(given)


def _both_folders(run: str) -> str:
    return f"For one other folder, name both instead of the run: --cache-dir {_RUNS}/{run}/cache --experiences-dir DIR."


def _placed(settings: SettingsT, run: RunFolder) -> SettingsT:
    return settings.model_copy(
        update={"run": run.name or None, "cache_dir": run.cache, "experiences_dir": run.experiences}
    )


def _model(settings: RoleSettings) -> str:
    """The model of the first generator that is configured: the generators of a run share its folder."""
    if settings.endpoint == "local":
        return str(settings.local_model)
    if settings.model is not None:
        return settings.model
    manager = settings.load_endpoints()
    role = next((name for name in GENERATORS if manager.has(name)), GENERATORS[0])
    return manager.local_model(role) or manager.endpoint(role).model


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")
