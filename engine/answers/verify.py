r"""Decide whether an answer is correct. The component ``r_ans`` is computed from this verdict.

The layers, cheapest first; each is used only if the one before cannot decide:

1. whole numbers are compared as they are;
2. the answer is found in the text (``reply``), normalised (``normal``), and its shape is parsed (``shapes``);
3. shapes are compared (``comparison``), and values in this process, in microseconds (``plain_values``): integers,
   fractions, decimals, words, quantities;
4. in a worker process with a time limit (``symbolic``): algebra.

The rules for equality are documented with the code: numbers in ``numerals.same_number`` and
``numerals.physics_tolerance``, units in ``units`` and ``plain_values``, tuples, sets and intervals in
``shapes``, formulas in ``equivalence``.

A timeout, a crash and an unreadable answer are all "not correct", so that breaking the verifier gains nothing.
The verdict is None only if no worker could be started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.answers.verdict import Comparison, Verdict
from engine.records import Outcome

if TYPE_CHECKING:
    from engine.sandbox.worker import KillablePool

_MOST_DIGITS = 60


def verify_answer(
    answer: str | None,
    ground_truth: str,
    *,
    comparison: Comparison = "exact",
    pool: KillablePool | None = None,
    timeout_s: float = 3.0,
    rel_tol: float | None = None,
) -> Verdict:
    """Decide whether an answer is correct. Thread-safe. No text of an answer raises an exception.

    Args:
        answer: any text of a model, or None.
        ground_truth: the true answer, as ``check_ground_truth`` accepts it.
        comparison: ``exact``: exact values; a unit on one side only is ignored. ``measured``: quantities with their
            units, within the truth's tolerance; a bare number is correct only if the truth is dimensionless.
        pool: the worker processes for algebra; the shared pool by default.
        timeout_s: seconds of processor time for one job of the worker (its start and imports are not counted).
        rel_tol: a relative tolerance that replaces the rules for significant figures.

    Raises:
        InputError: the ground truth is unusable.
    """
    if comparison == "exact" and rel_tol is None and answer and _is_whole(answer) and _is_whole(ground_truth):
        is_same = int(answer) == int(ground_truth)
        return Verdict(is_same, Outcome.OK, "integer", f"{answer} {'is' if is_same else 'is not'} {ground_truth}")
    from engine.answers import layers  # most answers of a run are whole numbers

    return layers.verify(answer, ground_truth, comparison, pool, timeout_s, rel_tol)


def is_value(text: str, comparison: Comparison = "exact") -> bool:
    """Whether a text can be the truth in ``verify_answer``; "**" and "<answer></answer>" cannot."""
    if _is_whole(text):
        return True
    from engine.answers import layers

    return layers.is_value(text, comparison)


def check_ground_truth(text: str | None, comparison: Comparison = "exact") -> None:
    """Check, before a run starts, that answers can be compared with a ground truth.

    Raises:
        InputError: it is missing, empty, a placeholder such as "N/A", too long, or (``measured``) with an unknown unit.
    """
    if not isinstance(text, str) or not _is_whole(text):
        from engine.answers import layers

        layers.check_ground_truth(text, comparison)


def _is_whole(text: str) -> bool:
    """Whether a text is bare digits, which need no other layer."""
    return text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS
