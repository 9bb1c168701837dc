"""Rows of a small dataset at a fixed address: fetched once, checked, and kept on this machine."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from engine.errors import MissingInputError
from engine.storage.append_log import write_file
from engine.storage.certificates import trusted_certificates
from engine.storage.hub import is_offline

_TIMEOUT_S = 20.0
_REVISION = "X-Revision"
"""Header in which the dataset viewer of the Hugging Face hub names the commit that its rows are of."""


def rows_from_web(
    name: str, url: str, revision: str, fault: Callable[[Sequence[Mapping[str, Any]]], str]
) -> list[dict[str, Any]]:
    """The rows of a dataset: those that were kept by an earlier call, else from its address.

    Args:
        name: of the dataset; the file is named after it and the revision.
        url: JSON Lines, or the reply of ``/rows`` of the hub's dataset viewer.
        revision: commit that the rows are of. A reply that names another one in its header is refused.
        fault: what is wrong with rows that are not those of this revision; empty if they are. Also asked for the file.

    Raises:
        MissingInputError: the address cannot be reached, or its rows are others; with the reason.
    """
    path = cache_folder() / f"{name}-{revision[:10]}.jsonl"
    if (kept := _kept(path)) and not fault(kept):
        return kept
    if is_offline():
        raise MissingInputError(f"Dataset {name} is not fetched", why="HF_HUB_OFFLINE is set.")
    what = f"Dataset {name} could not be fetched from {urlsplit(url).hostname}"
    try:
        rows = _rows(_fetch(name, url, revision))
    except (httpx.HTTPError, OSError, ValueError) as error:
        raise MissingInputError(what, why=f"{url}: {error or type(error).__name__}") from error
    if wrong := fault(rows):
        raise MissingInputError(what, why=f"{url}: {wrong}")
    write_file(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
    return rows


def cache_folder() -> Path:
    """Where fetched datasets are kept: ``scaffold-grpo/datasets`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "scaffold-grpo/datasets"


def _kept(path: Path) -> list[dict[str, Any]]:
    """The rows of the file; none if it is missing or damaged."""
    try:
        return _rows(path.read_bytes())
    except (OSError, ValueError):
        return []


def _fetch(name: str, url: str, revision: str) -> bytes:
    print(f"Fetching {name} from {urlsplit(url).hostname}", file=sys.stderr)
    with httpx.Client(timeout=_TIMEOUT_S, follow_redirects=True, verify=trusted_certificates(url)) as client:
        reply = client.get(url)
    reply.raise_for_status()
    given = reply.headers.get(_REVISION, revision)
    if given != revision:
        raise ValueError(f"it has the revision {given[:40]}, not {revision}")
    return reply.content


def _rows(content: bytes) -> list[dict[str, Any]]:
    """Read JSON Lines, or ``{"rows": [{"row": {...}}, ...]}``."""
    lines = [json.loads(line) for line in content.decode().splitlines() if line.strip()]
    if len(lines) == 1 and isinstance(lines[0], dict) and isinstance(lines[0].get("rows"), list):
        lines = [entry.get("row") if isinstance(entry, dict) else None for entry in lines[0]["rows"]]
    if not all(isinstance(row, dict) for row in lines):
        raise ValueError("its content is not rows")
    return lines
