"""Settings of the benchmark: which server, data sets and arms."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

Words = list[str]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DataSet(_Part):
    """A data set; the keys are explained in ``settings.yaml``."""

    files: list[str]
    train: int
    test: int
    samples: int
    max_tokens: int
    nearest_labels: int | None = None
    by_label: bool = False
    labels: str | None = None
    decimals: int | None = None
    rename: dict[str, str] = {}
    flags: Words = []


class Arm(_Part):
    """A way of learning; the keys are explained in ``settings.yaml``."""

    command: list[str | Words] = []
    peer: str | None = None
    requirements: Words = []
    options: dict[str, Any] = {}

    def words(self, values: dict[str, Any]) -> Words:
        """The module and the arguments of the command, with the values of a job in their places."""
        lists = ([entry] if isinstance(entry, str) else entry for entry in self.command)
        return [word.format(**values) for word in itertools.chain.from_iterable(lists)]


class Settings(_Part):
    """The content of ``settings.yaml``."""

    url: str
    model: str
    temperature: float
    seeds: list[int]
    concurrency: int
    proxy_port: int
    rollouts: int | None
    reference: str
    datasets: dict[str, DataSet]
    arms: dict[str, Arm]

    @classmethod
    def load(cls, path: Path) -> Settings:
        """Read a file."""
        return cls.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
