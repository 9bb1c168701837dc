"""Which experiences a list shows, and in which order."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from engine.errors import InputError
from engine.experience.review import category_slug
from engine.experience.state import LibraryState
from engine.experience.trial import Trials
from engine.records import Experience


def selected(arguments: argparse.Namespace, experiences: Iterable[Experience], trials: Trials) -> list[Experience]:
    """The experiences that a list shows, in order.

    Args:
        arguments: ``search``: a text that id, content, category or source problem contain, in any case; ``category``;
            ``sort``: ``effect``: largest measured effect first, unmeasured ones last; ``used``: most rollouts first;
            ``new``: newest first. None: all, or as given.
        experiences: to select from.
        trials: what was measured of them.
    """
    found = [one for one in experiences if _is_wanted(one, arguments.search, arguments.category)]
    if arguments.sort == "effect":
        return sorted(found, key=lambda one: -_effect(one, trials))
    if arguments.sort == "used":
        return sorted(found, key=lambda one: -one.uses.rollouts)
    if arguments.sort == "new":
        return sorted(found, key=lambda one: -int(one.id.rpartition("-")[2]))
    return found


def check_category(name: str, states: Iterable[LibraryState]) -> None:
    """Raise ``InputError`` with the known names if no experience of the libraries has a category."""
    known = {one.category for state in states for one in (*state.experiences, *state.retired, *state.forbidden)}
    if category_slug(name) not in known:
        raise InputError(
            f"No experience has the category {name!r}", fix=f"Categories: {', '.join(sorted(filter(None, known)))}."
        )


def _is_wanted(one: Experience, search: str | None, category: str | None) -> bool:
    if category is not None and one.category != category_slug(category):
        return False
    texts = (one.id, one.content, one.category, one.source_problem)
    return search is None or any(search.casefold() in text.casefold() for text in texts)


def _effect(one: Experience, trials: Trials) -> float:
    found = trials.interval(one.id)
    return float("-inf") if found is None else found[0]
