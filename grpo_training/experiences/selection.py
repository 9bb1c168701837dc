"""Which experiences a list shows, and in which order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.experience.review import category_slug
from engine.experience.trial import Trials
from engine.records import Experience


@dataclass(frozen=True)
class Selection:
    """Which experiences are shown.

    Args:
        search: a text that id, content, category or source problem contain, in any case; None: all.
        category: their category; None: all.
        sort: ``effect``: largest measured effect first, unmeasured ones last; ``used``: most rollouts first; ``new``:
            newest first; None: as given.
    """

    search: str | None = None
    category: str | None = None
    sort: str | None = None

    def of(self, experiences: Iterable[Experience], trials: Trials) -> list[Experience]:
        """The selected ones, in order."""
        found = [one for one in experiences if self._has(one)]
        if self.sort == "effect":
            return sorted(found, key=lambda one: -_effect(one, trials))
        if self.sort == "used":
            return sorted(found, key=lambda one: -one.uses.rollouts)
        if self.sort == "new":
            return sorted(found, key=lambda one: -int(one.id.rpartition("-")[2]))
        return found

    def _has(self, one: Experience) -> bool:
        if self.category is not None and one.category != category_slug(self.category):
            return False
        texts = (one.id, one.content, one.category, one.source_problem)
        return self.search is None or any(self.search.casefold() in text.casefold() for text in texts)


def _effect(one: Experience, trials: Trials) -> float:
    found = trials.interval(one.id)
    return float("-inf") if found is None else found[0]
