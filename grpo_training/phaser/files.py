"""JSON Lines files of prompts: read completely, written atomically."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engine.errors import InputError, MissingInputError
from engine.storage.append_log import write_file
from engine.storage.json_lines import bad_line, json_lines


def read_rows(path: Path, maker: str) -> list[dict[str, Any]]:
    """The rows of a file, without blank lines.

    Args:
        path: the file.
        maker: the step that writes it, with its flag for the file.

    Raises:
        MissingInputError: there is no such file.
        InputError: it is empty, or a line is not a JSON object; the message names the line.
    """
    fix = f"Make it: python -m grpo_training.phaser {maker} {shlex.quote(str(path))}"
    if not path.is_file():
        raise MissingInputError(f"File not found: {path}", fix=fix)
    rows = []
    for number, row in enumerate(json_lines(path.open("rb"), path), 1):
        if not isinstance(row, dict | None):
            raise bad_line(path, number, "expected a JSON object")
        if row is not None:
            rows.append(row)
    if not rows:
        raise InputError(f"{path} is empty", fix=fix)
    return rows


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows, one compact object per line; returns their number."""
    lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]
    write_text(path, "".join(line + "\n" for line in lines))
    return len(lines)


def write_text(path: Path, text: str) -> None:
    """Write a file; its folder is made if needed."""
    write_file(path, text.encode(errors="replace"))


def sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
