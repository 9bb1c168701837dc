r"""Decide whether an answer is correct. The component ``r_ans`` is computed from this verdict.

The layers, cheapest first; each is used only if the one before cannot decide:

1. the answer is found in the text (``reply``), normalised (``normal``), and its shape is parsed (``shapes``);
2. shapes are compared (``comparison``), and values in this process, in microseconds (``plain_values``): integers,
   fractions, decimals, words, quantities;
3. in a worker process with a time limit (``symbolic``): algebra.

The rules for equality are documented with the code: numbers in ``numerals.same_number`` and
``numerals.physics_tolerance``, units in ``units`` and ``plain_values``, tuples, sets and intervals in
``shapes``, formulas in ``equivalence``.

A timeout, a crash and an unreadable answer are all "not correct", so that breaking the verifier gains nothing.
The verdict is None only if no worker could be started.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from engine.answers.comparison import Comparer, Comparison, NeedsWorkerError
from engine.answers.normal import normalised
from engine.answers.reply import MAX_ANSWER_CHARS, unwrapped
from engine.answers.shapes import Shape, read_shape
from engine.answers.words import CONCLUDES, plain
from engine.errors import InputError
from engine.mathematics.parsing.parser import parse_expression
from engine.mathematics.parsing.tokens import Dialect
from engine.mathematics.parsing.tree import FormulaSyntaxError
from engine.mathematics.quantities.numerals import numeral_prefix
from engine.mathematics.quantities.units import read_quantity
from engine.records import Outcome
from engine.sandbox.worker import KillablePool, shared_pool

VERIFIER_VERSION = 14
"""Increased with each change of verdicts: in reading replies, knowns, formulas or answers, or in comparing them.

It is stored with each rollout as ``reward_detail.verifier``. Records without it were scored by version 1.
"""

_JOB = "engine.answers.symbolic:judge"
_SHOWN = 60
_MISSING = {"none", "null", "nan", "n/a", "na", "?", "unknown", "tbd"}
_SENTENCE = re.compile(r"[^$\\=\n]*\w\s(?:is|are|was|were)\s(?P<said>[A-Za-z][A-Za-z '-]*)\.?")
_COLLECTIONS = {"tuple": "set", "list": "set", "set": "set", "interval": "interval", "union": "interval"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision about one answer.

    Args:
        correct: None only where no worker could be started.
        outcome: ``ok``, or ``verifier_timeout`` where the worker was killed (then not correct).
        method: the layer that decided: ``integer``, ``rational``, ``numeric``, ``units``, ``set``, ``interval``,
            ``symbolic`` or ``text``.
        detail: the compared texts, shortened.
    """

    correct: bool | None
    outcome: Outcome
    method: str
    detail: str


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
    if comparison == "exact" and rel_tol is None and answer and _are_integers(answer, ground_truth):
        return _verdict(int(answer) == int(ground_truth), "integer", answer, ground_truth)
    truth = normalised(ground_truth, comparison)
    if not truth or len(truth) > MAX_ANSWER_CHARS:  # the condition of ``is_value``
        raise _unusable(ground_truth, "no value can be read in it")
    said = normalised(answer or "", comparison)
    if sentence := _SENTENCE.fullmatch(ground_truth):  # its subject counts: "Quantity A is greater"
        whole = plain(CONCLUDES.sub("", unwrapped(answer or "") or ""))
        return _verdict(whole in (plain(ground_truth), plain(sentence["said"])), "text", said, ground_truth)
    if not said or (said.startswith("not ") and said != truth):
        return Verdict(False, Outcome.OK, "text", "no answer")
    if len(said) > MAX_ANSWER_CHARS:
        return Verdict(False, Outcome.OK, "text", f"longer than {MAX_ANSWER_CHARS} characters")
    kind = read_shape(truth).kind
    comparer = Comparer(comparison, rel_tol)
    try:
        correct = comparer.same_answers(said, truth)
    except NeedsWorkerError:
        correct = False
        if said != truth:
            payload = {"answer": said, "truth": truth, "comparison": comparison, "rel_tol": rel_tol}
            return _ask_worker(payload, _COLLECTIONS.get(kind), pool or shared_pool(), timeout_s)
    return _verdict(correct or said == truth, _COLLECTIONS.get(kind, comparer.method), said, truth)


def _are_integers(answer: str, truth: str) -> bool:
    """Whether both are bare digits: a fast path for most answers, with the same result."""
    both = answer + truth
    return both.isdecimal() and both.isascii() and len(both) <= 2 * _SHOWN and bool(truth)


def is_value(text: str, comparison: Comparison = "exact") -> bool:
    """Whether a text can be the truth in ``verify_answer``; "**" and "<answer></answer>" cannot."""
    return 0 < len(normalised(text, comparison)) <= MAX_ANSWER_CHARS


def check_ground_truth(text: str | None, comparison: Comparison = "exact") -> None:
    """Check, before a run starts, that answers can be compared with a ground truth.

    Raises:
        InputError: it is missing, empty, a placeholder such as "N/A", too long, or (``measured``) with an unknown unit.
    """
    if not isinstance(text, str):
        raise _unusable(text, "it is missing")
    truth = normalised(text, comparison)
    if not any(char.isalnum() for char in truth) or text.strip().lower() in _MISSING:
        raise _unusable(text, "no value can be read in it")
    if len(truth) > MAX_ANSWER_CHARS:
        raise _unusable(text, f"it is longer than {MAX_ANSWER_CHARS} characters")
    if comparison == "measured":
        _check_parts(read_shape(truth), text)


def _check_parts(shape: Shape, text: str) -> None:
    for part in shape.parts:
        _check_parts(part, text)
    if shape.kind != "value" or not numeral_prefix(shape.text) or read_quantity(shape.text):
        return
    try:
        parse_expression(shape.text, Dialect.ANSWER)
    except FormulaSyntaxError:
        raise _unusable(text, "its unit is not known") from None


def _unusable(text: object, why: str) -> InputError:
    return InputError(
        f"Unusable ground truth: {str(text)[:_SHOWN]!r}",
        why=why,
        fix='Write the bare answer, such as "204", "\\\\frac{1}{2}", "(1, 2)" or "9.81 m/s^2".',
    )


def _ask_worker(payload: dict[str, Any], method: str | None, pool: KillablePool, timeout_s: float) -> Verdict:
    result = pool.run(_JOB, payload, timeout_s)
    if result.outcome in (Outcome.INFRA_FAULT, Outcome.VERIFIER_TIMEOUT):
        correct = None if result.outcome is Outcome.INFRA_FAULT else False
        return Verdict(correct, Outcome.VERIFIER_TIMEOUT, "symbolic", result.error)
    if result.outcome is not Outcome.OK:
        return Verdict(False, Outcome.OK, "symbolic", f"not comparable: {result.error[:200]}")
    return _verdict(result.value["correct"], method or result.value["method"], payload["answer"], payload["truth"])


def _verdict(correct: bool, method: str, said: str, truth: str) -> Verdict:
    relation = "is" if correct else "is not"
    return Verdict(correct, Outcome.OK, method, f"{said[:_SHOWN]} {relation} {truth[:_SHOWN]}")
