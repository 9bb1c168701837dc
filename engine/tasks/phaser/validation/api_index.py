"""The index of Phaser's API: which symbols exist, which are meant by a name, and which are near a wrong name.

``phaser_api.jsonl`` has one symbol a line. Its keys are ``symbol_id, name, kind, owner, signature, params, returns,
tags, source, doc, examples`` of seed 000, and ``static, since, deprecated, inherits, value``. A method is
``Owner#name``; every other member is ``Owner.name``. Members are listed on the class that declares them; ``inherits``
of a class names the classes and mixins whose members it has too. ``meta.json`` beside it has the version of Phaser and
the SHA-256.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import shlex
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from engine.errors import ConfigurationError

DEFAULT_PATH = Path("data/phaser/api_index/phaser_api.jsonl")
"""Where ``python -m grpo_training.phaser api-index`` writes it."""

PHASER_VERSION = "3.90.0"


def _fix(path: Path) -> str:
    folder = os.path.relpath(path.parent) if path.is_relative_to(Path.cwd()) else path.parent
    return f"Build it: python -m grpo_training.phaser api-index --out-dir {shlex.quote(str(folder))}"


class ApiIndex:
    """The symbols of Phaser.

    Args:
        rows: rows of ``phaser_api.jsonl``.
        sha256: hash of the file's bytes; part of the key of every cached verdict.
        phaser_version: version of the package that it was built from.
        path: the file.
    """

    def __init__(self, rows: list[dict[str, Any]], sha256: str, phaser_version: str, path: Path) -> None:
        self.sha256, self.phaser_version, self.path = sha256, phaser_version, path
        self._rows = {row["symbol_id"]: row for row in rows}

    @classmethod
    def load(cls, path: Path = DEFAULT_PATH) -> Self:
        """Read the index.

        Args:
            path: ``phaser_api.jsonl``; ``meta.json`` is in the same folder.

        Raises:
            ConfigurationError: a file is missing or damaged, or was built from another version of Phaser.
        """
        try:
            content = path.read_bytes()
            meta = json.loads(path.with_name("meta.json").read_bytes())
            sha256, version = hashlib.sha256(content).hexdigest(), meta["phaser_version"]
            if meta["sha256"] != sha256:
                raise ValueError("its SHA-256 is not the one in meta.json")
            index = cls([json.loads(line) for line in content.splitlines()], sha256, version, path)
        except FileNotFoundError as error:
            raise ConfigurationError(
                f"The index of Phaser's API was not found: {error.filename}", fix=_fix(path)
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"The index of Phaser's API is damaged: {path}", why=str(error), fix=_fix(path)
            ) from None
        if version != PHASER_VERSION:
            raise ConfigurationError(
                f"The index of Phaser's API is of Phaser {version}, not {PHASER_VERSION}: {path}", fix=_fix(path)
            )
        return index

    def __len__(self) -> int:
        return len(self._rows)

    def lineage(self, owner: str) -> tuple[str, ...]:
        """A class, and all classes and mixins whose members it has."""
        names: dict[str, None] = {}
        waiting = [owner]
        while waiting:
            name = waiting.pop(0)
            if name not in names:
                names[name] = None
                waiting += self._rows.get(name, {}).get("inherits", ())
        return tuple(names)

    def near(self, symbol: str) -> tuple[str, ...]:
        """Up to three existing symbols nearest to a wrong one, best first: members of its owner, else any symbol."""
        owner, _, name = symbol.partition("#") if "#" in symbol else symbol.rpartition(".")
        members: dict[str, str] = {}
        for ancestor in self.lineage(owner):
            for symbol_id in self._by_owner.get(ancestor, ()):
                members.setdefault(str(self._rows[symbol_id]["name"]), symbol_id)
        close = difflib.get_close_matches(name, members, cutoff=0.6)
        if close:
            return tuple(members[match] for match in close)
        return tuple(difflib.get_close_matches(symbol, self._rows, cutoff=0.8))

    @cached_property
    def _by_owner(self) -> dict[str, list[str]]:
        owners: dict[str, list[str]] = {}
        for symbol, row in self._rows.items():
            owners.setdefault(row["owner"], []).append(symbol)
        return owners
