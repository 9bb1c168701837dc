"""Runs with names: one folder each, with its cache, its libraries and what was proven of them."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from engine.api_manager import GENERATORS
from engine.errors import ConfigurationError, InputError, MissingInputError
from engine.tasks.registry import load_task
from grpo_training.cli.settings import WORKING_DIR, as_flag, shown_path
from grpo_training.runs.learner_files import manifest_file
from grpo_training.runs.manifest import RunManifest, load_manifest
from grpo_training.runs.settings import PLACES, RoleSettings

_RUNS = "runs"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_RESULTS = re.compile(r".*_rollouts\.jsonl|critic_results\.jsonl|.*_run\.json|.*_experiences(\.ops\.jsonl|\.json)")
_TIME = re.compile(rb'"\w+": ?"([^"\\]{1,40})"')
_LAST_BYTES = (1 << 13, 1 << 22)
"""The end of a file in which the time of its last line is looked for: usually the first is enough."""

_POLL_S = 0.5
"""Between two looks for a run that has not begun."""

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

    def changed(self) -> tuple[float, float]:
        """When its newest result was made, and when a file of it was written; zeros without results.

        The first are the times in groups, fusions and logs of libraries, which a copied or touched file keeps. The
        second stands for them where there are none, and tells runs of the same second apart.
        """
        files = [*_results_in(self.cache), *_results_in(self.experiences)]
        written = max((entry.stat().st_mtime for entry in files), default=0.0)
        made = max((_time_of(entry.path) for entry in files if entry.name.endswith(".jsonl")), default=0.0)
        return made or written, written


def _results_in(folder: Path) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return [entry for entry in entries if _RESULTS.fullmatch(entry.name)]
    return []


def _time_of(log: str) -> float:
    """When the last line of a log was made, as it says itself; 0 if it does not.

    It is looked for by its key: in a text of JSON, such as a reply, the quotes of a key are escaped.
    """
    key = b'"at":' if log.endswith(".ops.jsonl") else b'"timestamp":'
    with contextlib.suppress(OSError, ValueError), open(log, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        for length in _LAST_BYTES:
            stream.seek(max(0, size - length))
            end = stream.read()
            if found := _TIME.match(end, max(0, end.rfind(key))):
                made = datetime.fromisoformat(found[1].decode())
                return (made if made.tzinfo else made.replace(tzinfo=UTC)).timestamp()
            if size <= length:
                break
    return 0.0


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
    changed = {run: when for run in (*named, unnamed_run()) if any(when := run.changed())}
    return sorted(changed, key=changed.__getitem__, reverse=True)


def found_run(name: str | None) -> RunFolder:
    """A run that has results: the one with this name, or the newest, which is printed.

    Raises:
        InputError: there is no run with this name.
        MissingInputError: there is no run at all.
    """
    if name is not None and _NAME.fullmatch(name) and any(run_folder(name).changed()):
        return _with_libraries(run_folder(name))
    known = known_runs()
    if name is not None:
        names = ", ".join(run.name for run in known if run.name)
        fix = f"Runs: {names or 'none yet'}. A run is there as soon as its generator has printed its name."
        raise InputError(f"There is no run {name!r} in {_RUNS}", fix=fix)
    if not known:
        raise MissingInputError(
            f"There is no run in {shown_path(WORKING_DIR / _RUNS)}",
            fix="Run python -m grpo_training.generator1 first, or start the command in the folder of the run.",
        )
    if len(known) > 1:
        shown = known[0].name or shown_path(known[0].cache)
        print(f"Run: {shown}, the newest of {len(known)} (--run NAME for another)", file=sys.stderr)
    return _with_libraries(known[0])


def wait_for_run(settings: RoleSettings, pause: Callable[[float], None] = time.sleep) -> None:
    """Wait until a generator has begun the run of ``--run``, or any run. Folders that were given are not waited for.

    Args:
        settings: of the command.
        pause: waits for some seconds.
    """

    def has_begun() -> bool:
        runs = known_runs() if settings.run is None else [run_folder(settings.run)]
        return any(list(_manifests(run.cache)) for run in runs)

    if _given_places(settings) or has_begun():
        return
    flag = f" with --run {settings.run}" if settings.run else ""
    print(f"Waiting for a run in {shown_path(WORKING_DIR / _RUNS)}: start a generator{flag}", flush=True)
    while not has_begun():
        pause(_POLL_S)


def places(run: str | None, cache: Path | None, experiences: Path | None) -> tuple[Path, Path]:
    """Cache and libraries of a run, by default of the newest; or the given folders, of which each tells the other.

    Raises:
        InputError, MissingInputError: as :func:`found_run`, and both a name and folders were given.
    """
    if run is not None and (cache or experiences):
        raise InputError("--run and --cache-dir or --experiences-dir exclude each other", fix=_both_folders(run))
    if cache is not None:
        return cache, experiences or libraries_of(cache)
    if experiences is not None:
        owners = (one.cache for one in known_runs() if libraries_of(one.cache).resolve() == experiences.resolve())
        return next(owners, unnamed_run().cache), experiences
    found = found_run(run)
    return found.cache, found.experiences


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
    """The settings with the folders of ``--run``, or of the newest run, except for folders that were given.

    Raises:
        InputError, MissingInputError: as :func:`found_run`, and both a name and folders were given.
    """
    if given := _given_places(settings):
        return _completed(settings, given, lambda: next(iter(known_runs()), unnamed_run()))
    return _placed(settings, found_run(settings.run))


def in_own_run(settings: SettingsT, dataset: str, role: str) -> SettingsT:
    """The settings with the folders of ``--run``, or of the run of this dataset and model, except for given ones.

    Results without a name of the same dataset and model are continued where they are, also those of another generator.

    Args:
        settings: of a generator.
        dataset: its problems.
        role: of the generator.

    Raises:
        InputError: both a name and folders were given.
        ScaffoldError: the endpoints cannot be read.
    """
    if given := _given_places(settings):
        return _completed(settings, given, lambda: _own_run(settings, dataset, role))
    if settings.run is not None:
        return _placed(settings, run_folder(settings.run))
    return _placed(settings, _own_run(settings, dataset, role))


def _own_run(settings: RoleSettings, dataset: str, role: str) -> RunFolder:
    model = _model(settings)
    unnamed, named = unnamed_run(), run_folder(automatic_name(dataset, model))
    own = load_manifest(manifest_file(unnamed.cache, role))
    begun = [own] if own else [] if any(named.changed()) else _manifests(unnamed.cache)
    if any((one.settings.get("dataset"), one.facts.get("model")) == (dataset, model) for one in begun):
        print(f"Continuing the results in {shown_path(unnamed.cache)}")
        return unnamed
    return named


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


def libraries_of(cache: Path) -> Path:
    """The folder of the libraries of a cache: beside it in a run, else the recorded one, else that of unnamed runs."""
    return _with_libraries(RunFolder("", cache, cache.parent / "experiences"), unnamed_run().experiences).experiences


def _with_libraries(run: RunFolder, otherwise: Path | None = None) -> RunFolder:
    """The run with the libraries that its manifests name, where it has none of its own; else with ``otherwise``.

    A run with a name does not take those of another one, of which it may be a copy.
    """
    if run.experiences.is_dir():
        return run
    recorded = (Path(one.experiences) for one in _manifests(run.cache) if one.experiences)
    usable = (place for place in recorded if place.is_dir())
    found = next((place for place in usable if not run.name or place.parent.parent != run.folder.parent), otherwise)
    return run if found is None else replace(run, experiences=found)


def _manifests(cache: Path) -> Iterator[RunManifest]:
    """The manifests in a cache, read one at a time."""
    yield from filter(None, map(load_manifest, sorted(cache.glob("*_run.json"))))


def _given_places(settings: RoleSettings) -> list[str]:
    given = [name for name in PLACES if name in settings.model_fields_set]
    if given and settings.run is not None:
        raise InputError(f"--run and {as_flag(given[0])} exclude each other", fix=_both_folders(settings.run))
    return given


def _completed(settings: SettingsT, given: Sequence[str], run: Callable[[], RunFolder]) -> SettingsT:
    """The settings with the folder that was not given beside the other one, which is printed.

    A cache has its own libraries, see :func:`libraries_of`; libraries alone are used with the cache of ``run``.
    """
    if len(given) == len(PLACES):
        return settings
    if given == ["cache_dir"]:
        name, place = "experiences_dir", libraries_of(settings.cache_dir)
    else:
        name, place = "cache_dir", run().cache
    print(f"{as_flag(name)} is {shown_path(place)}", file=sys.stderr)
    return settings.model_copy(update={name: place})


def _both_folders(run: str) -> str:
    return f"For one other folder, name both instead of the run: --cache-dir {_RUNS}/{run}/cache --experiences-dir DIR."


def _placed(settings: SettingsT, run: RunFolder) -> SettingsT:
    run = _with_libraries(run)
    return settings.model_copy(
        update={"run": run.name or None, "cache_dir": run.cache, "experiences_dir": run.experiences}
    )


def _model(settings: RoleSettings) -> str:
    """The model of the first generator with a usable entry: the generators of a run share its folder.

    Keys are not needed: whoever starts first may have no other key than its own.
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


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")
