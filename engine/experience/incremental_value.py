"""Values over the experiences of a library that are continued, instead of computed anew, when experiences are added."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from engine.records import Experience

ResultT = TypeVar("ResultT")
ValueT = TypeVar("ValueT")

_LIBRARIES = 8
"""Values that are kept at a time: a process has few libraries."""


class IncrementalValue(Generic[ValueT]):
    """A value over a tuple of experiences. May be used from several threads.

    Args:
        empty: makes the value of no experience.
        add: adds an experience at the end to the value, in place.
    """

    def __init__(self, empty: Callable[[], ValueT], add: Callable[[ValueT, Experience], None]) -> None:
        self._empty, self._add = empty, add
        self._known: dict[int, tuple[tuple[Experience, ...], ValueT]] = {}
        self._guard = threading.Lock()

    def apply(self, texts: tuple[Experience, ...], use: Callable[[ValueT], ResultT]) -> ResultT:
        """What ``use`` returns for the value; it must not keep the value, which grows."""
        with self._guard:
            return use(self._value(texts))

    def _value(self, texts: tuple[Experience, ...]) -> ValueT:
        key = id(texts[0]) if texts else 0
        known, value = self._known.pop(key, ((), None))
        if value is None or texts[: len(known)] != known:  # the same objects are not compared further
            known, value = (), self._empty()
        for text in texts[len(known) :]:
            self._add(value, text)
        self._known[key] = texts, value  # the newest comes last
        if len(self._known) > _LIBRARIES:
            del self._known[next(iter(self._known))]
        return value
