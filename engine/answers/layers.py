"""The layers of ``verify`` behind whole numbers: texts are normalised, and compared here or in a worker."""

from __future__ import annotations

import re
from typing import Any

from engine.answers.comparison import Comparer, NeedsWorkerError
from engine.answers.normalise import normalised
from engine.answers.reply import MAX_ANSWER_CHARS, unwrapped
from engine.answers.shapes import Shape, read_shape
from engine.answers.verdict import Comparison, Verdict
from engine.answers.words import CONCLUDES, plain
from engine.errors import InputError
from engine.mathematics.parsing.parser import parse_expression
from engine.mathematics.parsing.tokens import Dialect
from engine.mathematics.parsing.tree import FormulaSyntaxError
from engine.mathematics.quantities.numerals import numeral_prefix
from engine.mathematics.quantities.units import read_quantity
from engine.records import Outcome
from engine.sandbox.worker import KillablePool, shared_pool

_JOB = "engine.answers.symbolic:judge"
_SHOWN = 60
_MISSING = {"none", "null", "nan", "n/a", "na", "?", "unknown", "tbd"}
_SENTENCE = re.compile(r"[^$\\=\n]*\w\s(?:is|are|was|were)\s(?P<said>[A-Za-z][A-Za-z '-]*)\.?")
_COLLECTIONS = {"tuple": "set", "list": "set", "set": "set", "interval": "interval", "union": "interval"}


def verify(
    answer: str | None,
    ground_truth: str,
    comparison: Comparison,
    pool: KillablePool | None,
    timeout_s: float,
    rel_tol: float | None,
) -> Verdict:
    """The verdict, see :func:`engine.answers.verify.verify_answer`."""
    truth = normalised(ground_truth, comparison)
    if not truth or len(truth) > MAX_ANSWER_CHARS:  # the condition of ``is_value``
        raise _unusable(ground_truth, "no value can be read in it")
    value = normalised(answer or "", comparison)
    if sentence := _SENTENCE.fullmatch(ground_truth):  # its subject counts: "Quantity A is greater"
        statement = plain(CONCLUDES.sub("", unwrapped(answer or "") or ""))
        return _verdict(statement in (plain(ground_truth), plain(sentence["said"])), "text", value, ground_truth)
    if not value or (value.startswith("not ") and value != truth):
        return Verdict(False, Outcome.OK, "text", "no answer")
    if len(value) > MAX_ANSWER_CHARS:
        return Verdict(False, Outcome.OK, "text", f"longer than {MAX_ANSWER_CHARS} characters")
    kind = read_shape(truth).kind
    comparer = Comparer(comparison, rel_tol)
    try:
        correct = comparer.same_answers(value, truth)
    except NeedsWorkerError:
        correct = False
        if value != truth:
            payload = {"answer": value, "truth": truth, "comparison": comparison, "rel_tol": rel_tol}
            return _ask_worker(payload, _COLLECTIONS.get(kind), pool or shared_pool(), timeout_s)
    return _verdict(correct or value == truth, _COLLECTIONS.get(kind, comparer.method), value, truth)


def is_value(text: str, comparison: Comparison) -> bool:
    """Whether a text can be the truth."""
    return 0 < len(normalised(text, comparison)) <= MAX_ANSWER_CHARS


def check_ground_truth(text: str | None, comparison: Comparison) -> None:
    """Raise ``InputError`` for a truth with which no answer can be compared."""
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


def _verdict(correct: bool, method: str, value: str, truth: str) -> Verdict:
    relation = "is" if correct else "is not"
    return Verdict(correct, Outcome.OK, method, f"{value[:_SHOWN]} {relation} {truth[:_SHOWN]}")
