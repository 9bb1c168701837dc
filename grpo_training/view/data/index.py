"""The index of a generator's rollouts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from engine.records import RolloutGroup
from engine.statistics.groups import ComponentSummary, DeadRewardWatch
from engine.storage.index_file import Unreadable
from engine.storage.indexed_log import IndexedLog
from engine.storage.summaries import GroupSummary, summarise_group
from grpo_training.view.data.file_index import FileIndex

ValueT = TypeVar("ValueT")


class RolloutIndex(FileIndex[GroupSummary, RolloutGroup]):
    """The groups of one file, by problem and epoch.

    Args:
        path: a rollouts file, also one that is being written.
        tau: for groups without stored statistics.
        clocks: see :class:`FileIndex`.
    """

    def __init__(self, path: Path, tau: float = 0.05, **clocks: Callable[[], float]) -> None:
        super().__init__(path, RolloutGroup, IndexedLog(path, GroupSummary, summarise_group), **clocks)
        self._tau = tau
        self._texts: dict[str, str] = {}
        self._watch, self._watched = DeadRewardWatch(), 0
        self._memos: dict[str, tuple[int, Any]] = {}

    def memo(self, name: str, compute: Callable[[], ValueT]) -> ValueT:
        """What ``compute`` returns for the groups that were read so far; computed again when there are more."""
        version = self._version
        known = self._memos.get(name)
        if known is None or known[0] != version:
            known = self._memos[name] = (version, compute())
        value: ValueT = known[1]
        return value

    def dead_rewards(self) -> list[ComponentSummary]:
        """The reward components that do not vary now, or did not for a while."""
        with self._guard:
            for group in self._summaries[self._watched :]:
                if group.is_scored:
                    self._watch.feed({name: one.as_values() for name, one in group.components.items()})
            self._watched = len(self._summaries)
            return [summary for summary in self._watch.summary() if summary.alarms]

    def _add(self, summary: GroupSummary | Unreadable) -> None:
        if isinstance(summary, GroupSummary):  # equal texts are kept once
            for name in ("problem_text", "generator_id", "task", "library_version", "model"):
                text = getattr(summary, name)
                msgspec.structs.force_setattr(summary, name, self._texts.setdefault(text, text))
            summary = summary.with_tau(self._tau)
        super()._add(summary)

    def _clear(self) -> None:
        super()._clear()
        self._texts.clear()
        self._watch, self._watched = DeadRewardWatch(), 0
