"""The folder of a training: what it was made with is written before anything else, and never mixed with another's."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import InputError, ScaffoldError
from engine.storage.append_log import AppendLog, replace_file
from grpo_training.cli.settings import ROOT
from grpo_training.finetune.config import GRPOTrainingConfig
from grpo_training.runs.manifest import RunManifest, load_manifest, settle_run

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG_YAML, CONFIG_JSON, ENVIRONMENT = "config.yaml", "config.json", "environment.json"
LOCK = "run.lock"
_RESULTS = ("metrics.jsonl", "lora", "merged", "checkpoint-*")
_LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers", "numpy", "pydantic")
_GIT_S = 10.0


@dataclass(frozen=True)
class RunDirectory:
    """A run directory that this process holds.

    Args:
        path: the folder.
        manifest: what is in ``config.json``.
        is_finished: an earlier start of just this configuration came to its end.
    """

    path: Path
    manifest: RunManifest
    is_finished: bool

    def finish(self) -> None:
        """Write that the training came to its end."""
        self.manifest.finish(self.path / CONFIG_JSON)


def resumed_config(config: GRPOTrainingConfig) -> GRPOTrainingConfig:
    """With ``resume`` the configuration of the run directory, in whatever the given one differs; else the given one.

    Raises:
        InputError: there is no run to go on with, or its ``config.json`` cannot be used.
    """
    if not config.resume:
        return config
    manifest = load_manifest(config.output_dir / CONFIG_JSON)
    if manifest is None:
        raise InputError(
            f"There is no run in {config.output_dir} to go on with",
            fix="Leave --resume out to begin one, or name its folder by --output-dir.",
        )
    return config.with_changes(**manifest.configuration["settings"])


@contextlib.contextmanager
def open_run(config: GRPOTrainingConfig, facts: dict[str, Any]) -> Iterator[RunDirectory]:
    """Hold the run directory of a configuration, with ``config.yaml``, ``config.json`` and ``environment.json`` in it.

    Args:
        config: after :func:`resumed_config`.
        facts: what shapes the weights and stands in no setting, such as a hash of the data, as JSON values.

    Raises:
        InputError: the folder holds a run of another configuration or data, or files that are no run.
        LockHeldError: another process trains in it.
    """
    folder = config.output_dir
    _refuse_foreign(folder)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with AppendLog(folder / "run").hold():
            if config.fresh:
                _set_aside(folder)
            yield _begin(config, facts)
    except ScaffoldError:
        if is_new and not _results(folder):
            _remove_empty_run(folder)
        raise


def _begin(config: GRPOTrainingConfig, facts: dict[str, Any]) -> RunDirectory:
    folder = config.output_dir
    path = folder / CONFIG_JSON
    before = load_manifest(path)
    manifest = settle_run(path, config.shaping(), facts, _results(folder), resume=config.resume)
    is_finished = before is not None and before.finished and before.run == manifest.run
    if is_finished:
        manifest.finish(path)
    else:
        replace_file(folder / CONFIG_YAML, config_yaml(config).encode())
        replace_file(folder / ENVIRONMENT, json.dumps(environment(), indent=2).encode() + b"\n")
    return RunDirectory(folder, manifest, is_finished)


def _results(folder: Path) -> list[Path]:
    return [path for pattern in _RESULTS for path in folder.glob(pattern)]


def _remove_empty_run(folder: Path) -> None:
    """Take back a folder in which a training was refused before its first step."""
    for name in (CONFIG_YAML, CONFIG_JSON, ENVIRONMENT, LOCK):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # something else was written to it: that stays
        folder.rmdir()


def config_yaml(config: GRPOTrainingConfig) -> str:
    """The resolved configuration as a file for ``--config``; how this one start was given is left out."""
    import yaml

    settings = {key: value for key, value in config.to_dict().items() if key not in ("dry_run", "resume", "fresh")}
    head = "# The resolved configuration of this run. The same run again: --config THIS_FILE\n"
    return head + yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def _refuse_foreign(folder: Path) -> None:
    """A folder with files of someone else is never written to, nor set aside."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output-dir is a file: {folder}", fix="Name a new folder, or that of an earlier run.")
    if not folder.is_dir() or (folder / CONFIG_JSON).is_file():
        return
    strange = sorted(path.name for path in folder.iterdir() if path.name != LOCK and not _is_old(path))
    if strange:
        raise InputError(
            f"{folder} is no run directory",
            why=f"It has no {CONFIG_JSON}, and it holds {', '.join(strange[:3])}{' ...' if len(strange) > 3 else ''}.",
            fix="Name a new folder by --output-dir, or that of an earlier run.",
        )


def _set_aside(folder: Path) -> None:
    """Move what a run left into ``runN.old`` of the same folder, its ``config.json`` last.

    A crash in between leaves the rest with the manifest; the next ``--fresh`` moves it to a folder of its own.
    """
    entries = [path for path in folder.iterdir() if path.name != LOCK and not _is_old(path)]
    if not entries:
        return
    number = 1
    while (folder / f"run{number}.old").exists():
        number += 1
    old = folder / f"run{number}.old"
    old.mkdir()
    for path in sorted(entries, key=lambda path: path.name == CONFIG_JSON):
        path.rename(old / path.name)


def _is_old(path: Path) -> bool:
    return path.is_dir() and path.name.startswith("run") and path.name.endswith(".old")


# ------------------------------------------------------------------ environment.json


def environment() -> dict[str, Any]:
    """What a run depends on beside its configuration: versions, code revision, machine."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: version for name in _LIBRARIES if (version := _version(name)) is not None},
        "code": code_revision(ROOT),
        "device": _device(),
    }


def code_revision(folder: Path) -> dict[str, Any]:
    """The git revision of a checkout and whether it holds changes beside it; None where git does not say."""
    if not (folder / ".git").exists():  # an installed package, perhaps inside of a checkout of something else
        return {"revision": None, "dirty": None}
    revision = _git(folder, "rev-parse", "HEAD")
    status = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"revision": revision, "dirty": None if status is None else bool(status)}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=_GIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _device() -> dict[str, Any]:
    torch = sys.modules.get("torch")  # a training has it; to look at a folder is no reason to load it
    if torch is None or not torch.cuda.is_available():
        return {"type": "cpu", "threads": torch.get_num_threads() if torch else None}
    return {"type": "cuda", "name": torch.cuda.get_device_name(), "count": torch.cuda.device_count()}
