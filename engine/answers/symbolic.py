"""Jobs of the verifier's worker processes: algebra, and quantities with formulas.

They run under ``KillablePool``, which kills them at their time limit.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Any

from engine.answers.comparison import Comparer
from engine.answers.plain_values import DEGREE, without_tails, written_alike
from engine.answers.shapes import Shape
from engine.mathematics.equivalence import constant_value, read_formula, same_formula, same_zeros, symbols_of
from engine.mathematics.parsing.tree import FormulaSyntaxError, Name, Node, apply, substitute
from engine.mathematics.quantities.numerals import Numeral, read_numeral, rounds_to, same_number, shows
from engine.mathematics.quantities.units import Quantity, read_quantity, same_quantity

_HAS_ORDER = re.compile(r"[A-Za-z)}]\s*\\circ\s*[A-Za-z(\\]|\\(?:mathbf|boldsymbol|vec|hat)(?![A-Za-z])")
"""``f \\circ g``, where the sign means no degrees; and a vector or a matrix, whose products have an order."""
_CALL = re.compile(r"(?<![A-Za-z\\])[fgh]'*\s*\([^()]*[A-Za-z][^()]*\)")
_LETTER = re.compile(r"(?<![A-Za-z\\])[fgh](?![A-Za-z'_]|\s*\()")
_MULTIPLE_OF_PI = re.compile(
    r"-?\s*(?:\d+\s*)?\\?pi(?:\s*/\s*\d+)?|-?\s*\\frac\s*\{\s*-?(?:\d+\s*)?\\pi\s*\}\s*\{\s*\d+\s*\}", re.ASCII
)
"""An angle in radians: pi degrees are another one."""
_FREE = (
    (frozenset("CcK"), re.compile(r"[-+]\s*[CcK]\Z|\A[CcK]\s*[-+]")),
    (frozenset("knmjl"), re.compile(r"pi|180|360")),
)
"""Letters of free parameters, which have no meaning, and what a formula with one has: x^2 + C, pi/2 + k pi."""


def judge(payload: dict[str, Any]) -> dict[str, Any]:
    """Decide on one answer.

    Args:
        payload: ``answer`` and ``truth`` (cleaned texts), ``comparison`` (exact or measured), ``rel_tol``.

    Returns:
        ``{"correct": bool, "method": str}``.
    """
    comparer = WorkerComparer(payload["comparison"], payload["rel_tol"])
    correct = comparer.same_answers(payload["answer"], payload["truth"])
    return {"correct": correct, "method": comparer.method}


class WorkerComparer(Comparer):
    """Compares with algebra."""

    def same_formulas(self, answer: str, truth: str) -> bool:
        """Compare by the value of the formulas, or of the quantities."""
        return self._measured(answer, truth) if self.comparison == "measured" else self._exact(answer, truth)

    def same_equations(self, answer: Shape, truth: Shape) -> bool:
        """Whether one side minus the other is the same up to a constant factor."""
        self.method = "symbolic"
        if len(answer.parts) != 2 or len(truth.parts) != 2:
            return answer == truth
        try:
            sign = same_zeros(_difference(answer), _difference(truth))
        except FormulaSyntaxError:
            return False
        return sign != 0 if truth.text in ("=", "!=") else sign > 0

    def _measured(self, answer: str, truth: str) -> bool:
        left, right = read_quantity(answer), read_quantity(truth)
        if right is not None:
            right = _with_number(right)
            left = _with_number(left if left is not None else Quantity((), None, answer))
            self.method = "units"
            if left and right and same_quantity(left, right, self.rel_tol):
                return True
            if left and right and left.unit and right.unit:  # "5 ms" is no product, also where "5 m s" is one
                return False
        self.method = "symbolic" if right is None else "units"
        if any(map(_HAS_ORDER.search, (answer, truth))):
            return written_alike(answer, truth)
        try:  # "2 m g" is a number of metres and grams, or a product of 2, m and g
            return same_formula(read_formula(answer), read_formula(truth))
        except FormulaSyntaxError:
            return written_alike(answer, truth)

    def _exact(self, answer: str, truth: str) -> bool:
        sides = without_tails(answer, truth)
        (answer_core, answer_unit), (truth_core, truth_unit) = sides
        if answer_unit and truth_unit and answer_unit != truth_unit:
            self.method = "units"
            left, right = (_with_number(Quantity(unit, read_numeral(core), core)) for core, unit in sides)
            return bool(left and right and same_quantity(left, right, self.rel_tol, "exact"))
        self.method = "symbolic"
        has_degrees = (answer_unit == DEGREE) != (truth_unit == DEGREE)
        if not (has_degrees and _MULTIPLE_OF_PI.fullmatch(truth_core)) and self._formulas(answer_core, truth_core):
            return True
        in_radians = (rf"({core})\pi/180" if unit == DEGREE else core for core, unit in sides)
        if has_degrees and self._formulas(*in_radians):  # pi/6 is 30 degrees
            return True
        return r"\circ" in answer + truth and self._formulas(answer, truth)  # degrees inside the formula: \tan 75^\circ

    def _formulas(self, answer: str, truth: str) -> bool:
        factors = set(_LETTER.findall(truth))  # g(a + b) is a product where the truth has g as a factor
        if any(map(_HAS_ORDER.search, (answer, truth))) or _calls(answer, factors) != _calls(truth, factors):
            return written_alike(answer, truth)
        try:
            left, right = read_formula(_as_fraction(answer)), read_formula(_as_fraction(truth))
        except FormulaSyntaxError as error:
            if error.kind == "too_large":
                return False
            self.method = "text"
            return written_alike(answer, truth)
        left = _with_parameter_of(left, right, answer, truth)
        by_value = self._by_value(answer, truth, left, right)
        return same_formula(left, right) if by_value is None else by_value

    def _by_value(self, answer: str, truth: str, left: Node, right: Node) -> bool | None:
        """Compare a decimal with an exact constant; None if this decides nothing."""
        number, truth_number = read_numeral(answer), read_numeral(truth)
        if self.rel_tol is None and not (number and number.rounded) and not (truth_number and truth_number.rounded):
            return None
        x, y = constant_value(left), constant_value(right)
        if x is None or y is None:
            return None
        if self.rel_tol is not None:
            return same_number(Numeral(x), Numeral(y), self.rel_tol)
        is_shown = number and number.rounded and shows(number, y)
        return True if is_shown or (truth_number and rounds_to(x, truth_number)) else None


def _as_fraction(text: str) -> str:
    r"""``2\frac{1}{2}`` as 5/2; in a formula it is a product."""
    number = read_numeral(text) if "frac" in text or "/" in text else None
    return text if number is None else f"({number.value})"


def _calls(text: str, factors: Set[str]) -> list[str]:
    """The calls of unknown functions: f(2x) is no product. Letters that are factors call nothing."""
    return sorted("".join(call.split()) for call in _CALL.findall(text) if call[0] not in factors)


def _with_parameter_of(left: Node, right: Node, *texts: str) -> Node:
    """The left formula with the right one's letter for its free parameter, where they differ in that letter only."""
    left_only, right_only = symbols_of(left) - symbols_of(right), symbols_of(right) - symbols_of(left)
    is_free = any(left_only | right_only <= letters and all(map(form.search, texts)) for letters, form in _FREE)
    if len(left_only) != 1 or len(right_only) != 1 or not is_free:
        return left
    return substitute(left, {next(iter(left_only)): Name(next(iter(right_only)))})


def _difference(relation: Shape) -> Node:
    left, right = (read_formula(side.text) for side in relation.parts)
    return apply("add", left, apply("neg", right))


def _with_number(quantity: Quantity) -> Quantity | None:
    """A quantity whose number is a formula (2 pi s), with that formula's value."""
    if quantity.number is not None:
        return quantity
    try:
        value = constant_value(read_formula(quantity.formula))
    except FormulaSyntaxError:
        return None
    return None if value is None else Quantity(quantity.unit, Numeral(value), prose=quantity.prose)
