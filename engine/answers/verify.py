r"""Whether an answer is right: the verdict that ``r_ans`` is made of.

Layers, cheapest first; each decides or passes on:

1. the answer is found in the text (``answer_text``) and its shape is read (``answer_shapes``);
2. here, in microseconds: integers, fractions, decimals, words, quantities in the same unit (``plain_values``);
3. in a worker process that is killed when it is late (``symbolic``): algebra, units through pint, and for
   formulas of mathematics that our reader does not know, Math-Verify's opinion.

What counts as equal is written where it is decided: numbers in ``numerals.same_number`` and
``numerals.physics_tolerance``, units in ``units`` and ``plain_values``, tuples, sets and intervals in
``answer_shapes``, formulas in ``identities``.

A text may not earn more by breaking its judge than by being wrong: a timeout, a crash and an unreadable
answer are all "not correct". Only a worker that could not be started says nothing about the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.answers.final_answer import MAX_ANSWER_CHARS, answer_text
from engine.answers.plain_values import same_plain_quantity, same_plain_value
from engine.answers.shapes import Judge, Shape, read_shape, same_shape
from engine.errors import InputError
from engine.mathematics.numerals import numeral_prefix
from engine.mathematics.parser import parse_expression
from engine.mathematics.tokens import Dialect
from engine.mathematics.tree import FormulaSyntaxError
from engine.mathematics.units import read_quantity, without_side_remarks
from engine.records import Outcome
from engine.sandbox.worker import WorkerPool, shared_pool

Comparison = Literal["exact", "measured"]
"""How answers are compared: as exact values, or as measured quantities with a unit and a tolerance."""

_JOB, _LOAD = "engine.answers.symbolic:judge", "engine.answers.symbolic:load"
_LOAD_LIMIT_S = 30.0
_MAX_LOADS = 16
_SHOWN = 60
_MISSING = {"none", "null", "nan", "n/a", "na", "?", "unknown", "tbd"}
_COLLECTIONS = {"tuple": "set", "list": "set", "set": "set", "interval": "interval", "union": "interval"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided.

    Args:
        correct: None only where nothing could be decided and the answer is not to blame.
        outcome: ``ok``, or ``verifier_timeout`` where the worker had to be killed (then not correct).
        method: the layer that decided: ``integer``, ``rational``, ``numeric``, ``units``, ``set``, ``interval``,
            ``symbolic``, ``math_verify`` or ``text``.
        detail: what was compared, in short.
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
    pool: WorkerPool | None = None,
    timeout_s: float = 3.0,
    rel_tol: float | None = None,
) -> Verdict:
    """Decide whether an answer is right. Works from any thread; never raises for what the answer holds.

    Args:
        answer: any text of a model, or None.
        ground_truth: the true answer, as ``check_ground_truth`` accepts it.
        comparison: ``exact``: exact values; a unit on one side only is ignored. ``measured``: a quantity within the
            truth's tolerance, with its unit: a bare number answers only a truth without dimension.
        pool: where algebra runs; the shared pool by default.
        timeout_s: seconds for one job of the worker (imports not counted).
        rel_tol: relative tolerance in place of the rules for shown figures.

    Raises:
        InputError: the ground truth is unusable.
    """
    if comparison == "exact" and rel_tol is None and answer and _are_integers(answer, ground_truth):
        return _verdict(int(answer) == int(ground_truth), "integer", answer, ground_truth)
    truth = _prepared(ground_truth, comparison)
    if not truth or len(truth) > MAX_ANSWER_CHARS:  # as ``is_value``
        raise _unusable(ground_truth, "no value can be read in it")
    said = _prepared(answer, comparison) if answer else ""
    if not said:
        return Verdict(False, Outcome.OK, "text", "no answer")
    if len(said) > MAX_ANSWER_CHARS:
        return Verdict(False, Outcome.OK, "text", f"longer than {MAX_ANSWER_CHARS} characters")
    shape = read_shape(truth)
    desk = _Desk(comparison, rel_tol)
    correct = same_shape(read_shape(said), shape, desk.judge)
    if said == truth:  # whatever it may mean
        correct = True
    if correct is not None:
        return _verdict(correct, _COLLECTIONS.get(shape.kind, desk.method), said, truth)
    return _ask_worker(said, truth, shape, comparison, pool or shared_pool(), timeout_s, rel_tol)


def _are_integers(answer: str, truth: str) -> bool:
    """Whether both are bare digits, which most answers are; all else takes the longer way to the same rules."""
    both = answer + truth
    return both.isdecimal() and both.isascii() and len(both) <= 2 * _SHOWN and bool(truth)


def is_value(text: str, comparison: Comparison = "exact") -> bool:
    """Whether a text can stand as the truth in ``verify_answer``; "**" and "<answer></answer>" say nothing."""
    return 0 < len(_prepared(text, comparison)) <= MAX_ANSWER_CHARS


def check_ground_truth(text: str | None, comparison: Comparison = "exact") -> None:
    """Refuse a ground truth that no answer could be compared with, before anything is paid for.

    Raises:
        InputError: none, empty, a placeholder such as "N/A", too long, or (``measured``) with an unknown unit.
    """
    if not isinstance(text, str):
        raise _unusable(text, "it is missing")
    truth = _prepared(text, comparison)
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


def _prepared(text: str, comparison: Comparison) -> str:
    text = answer_text(text)
    return without_side_remarks(text) if comparison == "measured" else text


class _Desk:
    """Compares values with what needs no worker, and remembers which layer decided last."""

    def __init__(self, comparison: Comparison, rel_tol: float | None) -> None:
        self._compare = same_plain_quantity if comparison == "measured" else same_plain_value
        self._rel_tol = rel_tol
        self.method = "text"
        self.judge = Judge(self.value, lambda answer, truth: True if answer == truth else None)

    def value(self, answer: str, truth: str) -> bool | None:
        decision = self._compare(answer, truth, self._rel_tol)
        if decision is None:
            return None
        self.method = decision.method
        return decision.correct


def _ask_worker(
    said: str,
    truth: str,
    shape: Shape,
    comparison: Comparison,
    pool: WorkerPool,
    timeout_s: float,
    rel_tol: float | None,
) -> Verdict:
    payload = {"answer": said, "truth": truth, "comparison": comparison, "rel_tol": rel_tol}
    for _ in range(_MAX_LOADS):  # every worker of the pool may have to import a library once
        result = pool.run(_JOB, payload, timeout_s)
        needs = result.value.get("needs") if result.outcome is Outcome.OK else None
        if needs is None:
            break
        loaded = pool.run(_LOAD, needs, _LOAD_LIMIT_S)
        if loaded.outcome is not Outcome.OK:  # the answer is not to blame
            return Verdict(None, Outcome.VERIFIER_TIMEOUT, "symbolic", f"{needs} not loaded: {loaded.error[:200]}")
    if result.outcome is Outcome.VERIFIER_TIMEOUT:
        never_began = "did not start" in result.error
        return Verdict(None if never_began else False, result.outcome, "symbolic", result.error)
    if result.outcome is not Outcome.OK or "correct" not in result.value:
        return Verdict(False, Outcome.OK, "symbolic", f"not comparable: {result.error[:200]}")
    method = _COLLECTIONS.get(shape.kind, result.value["method"])
    return _verdict(result.value["correct"], method, said, truth)


def _verdict(correct: bool, method: str, said: str, truth: str) -> Verdict:
    relation = "is" if correct else "is not"
    return Verdict(correct, Outcome.OK, method, f"{said[:_SHOWN]} {relation} {truth[:_SHOWN]}")
