"""The progress bar of steps that count something."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

_LINE_S = 30.0
"""Seconds between two states of a bar in a file or pipe, where each is a line."""


def progress_bar(items: Iterable[Any] | None = None, **options: Any) -> tqdm[Any]:
    """A bar of tqdm on stderr, which a file or pipe gets as a few lines.

    Args:
        items: what the bar iterates over; without it the caller counts with ``update``.
        options: of tqdm, such as ``desc``, ``total`` and ``unit``.
    """
    stream: Any = options.setdefault("file", sys.stderr)
    return tqdm(items, mininterval=0.5 if stream.isatty() else _LINE_S, **options)
