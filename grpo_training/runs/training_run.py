"""The run of a training: all files of one directory, which describe with what it was made."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from engine.errors import InputError
from engine.storage.append_log import AppendLog, replace_file
from grpo_training.runs.environment import environment
from grpo_training.runs.run import Run, RunManifest
from grpo_training.runs.settings import ResumableSettings

CONFIG_YAML, CONFIG_JSON, ENVIRONMENT, LOCK = "config.yaml", "config.json", "environment.json", "run.lock"
_RESULTS_OF_TRAINING = ("metrics.jsonl", "lora", "merged", "checkpoint-*")
_FILES_OF_TRAINING = (
    *(CONFIG_YAML, CONFIG_JSON, ENVIRONMENT, *_RESULTS_OF_TRAINING, "*.unfinished", "*.replaced", "*.tmp"),
    *("report.html", "samples.jsonl", "best_*.ckpt", "*_final.ckpt", "*_epoch*.ckpt"),
)
"""What trainings write into their directory. Other files there are not touched."""


class TrainingRun(Run):
    """A run whose results are all files of one directory; ``config.json`` is its manifest.

    Args:
        folder: the directory; made by :meth:`open`.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / CONFIG_JSON, (), lock=AppendLog(folder / "run"))
        self.folder = folder

    @contextlib.contextmanager
    def open(self, settings: ResumableSettings, facts: Mapping[str, Any]) -> Iterator[RunManifest]:
        """As in :class:`Run`; writes ``config.yaml`` and ``environment.json`` too.

        Raises:
            InputError: the folder has models or metrics of no known run, which a training would replace.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(
                f"--output-dir is a file: {self.folder}", fix="Pass a new directory, or that of an earlier run."
            )
        names = sorted(path.name for path in self._files())
        # With a lock it is one: its configuration is being written or set aside, or was deleted.
        if names and not self.manifest.is_file() and not (self.folder / LOCK).exists():
            raise InputError(
                f"{self.folder} is not a run directory",
                why=f"It has no {CONFIG_JSON} and contains {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}.",
                fix="Pass a new directory as --output-dir, or that of an earlier run.",
            )
        with super().open(settings, facts) as manifest:
            if manifest.finished:
                manifest.finish()
            else:
                replace_file(self.folder / CONFIG_YAML, _config_yaml(settings).encode())
                replace_file(self.folder / ENVIRONMENT, json.dumps(environment(), indent=2).encode() + b"\n")
            yield manifest

    def has_results(self) -> bool:
        """Whether a training has written metrics, a checkpoint or a model. Metrics without a line are none."""
        return any(path.stat().st_size > 0 for pattern in _RESULTS_OF_TRAINING for path in self.folder.glob(pattern))

    def set_aside(self) -> None:
        """Move all files into ``runN.old`` of the same directory, ``config.json`` last.

        After a crash in between, the next ``--fresh`` moves the remaining files to a folder of their own.
        """
        files = self._files()
        if files:
            numbered = (self.folder / f"run{number}.old" for number in itertools.count(1))
            old = next(folder for folder in numbered if not folder.exists())
            old.mkdir()
            for path in sorted(files, key=lambda path: path == self.manifest):
                path.rename(old / path.name)

    def _files(self) -> list[Path]:
        """The files of the present run: without the lock, earlier runs, and files of others."""
        return [
            path for path in self.folder.glob("*") if any(fnmatch(path.name, pattern) for pattern in _FILES_OF_TRAINING)
        ]


def _config_yaml(settings: ResumableSettings) -> str:
    """The resolved settings as a file for ``--config``, without the flags of this one start."""
    values = settings.model_dump(mode="json", exclude={"dry_run", "resume", "fresh"})
    head = "# The resolved configuration of this run. To repeat it: --config THIS_FILE\n"
    return head + yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
