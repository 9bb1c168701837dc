"""What each row is paid: its total reward, after the task's factor for near copies in its group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Payment(NamedTuple):
    """The reward of a row.

    Args:
        total: after the factor; None if the reply could not be verified.
        copies: the near copies of the reply in its group, itself included.
    """

    total: float | None
    copies: int


def payments(
    totals: Sequence[float | None], hashes: Sequence[str], group_of: Sequence[int], factor: Callable[[int], float]
) -> list[Payment]:
    """The payment of each row. Near copies get the same, so that their order does not matter.

    Args:
        totals: the rewards of the rows before the factor.
        hashes: their ``copy_hash``; a row with an empty one is compared with none.
        group_of: their groups.
        factor: of a number of copies, see :meth:`engine.abilities.ScoresForeignRows.copy_factor`.
    """
    counts = Counter(zip(group_of, hashes, strict=True))
    copies = [counts[place] if place[1] else 1 for place in zip(group_of, hashes, strict=True)]
    return [
        Payment(None if total is None else total * factor(count), count)
        for total, count in zip(totals, copies, strict=True)
    ]
