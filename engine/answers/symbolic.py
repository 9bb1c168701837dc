"""Jobs of the verifier's worker processes: algebra, quantities with formulas, and Math-Verify.

They run under ``KillablePool``, which kills them at their time limit. Math-Verify is slow to import: it is imported by
a setup, which does not count towards the time limit, and only in workers whose jobs need it.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from engine.answers.comparison import Comparer
from engine.answers.parameters import with_parameter_of
from engine.answers.plain_values import without_tails, written_alike
from engine.answers.shapes import Shape
from engine.mathematics.equivalence import (
    constant_value,
    linear_bound,
    read_formula,
    same_constant,
    same_formula,
    same_zeros,
    symbols_of,
)
from engine.mathematics.parsing.tree import FormulaSyntaxError, Name, Node, apply, substitute
from engine.mathematics.quantities.numerals import Numeral, read_numeral, rounds_to, same_number, shows
from engine.mathematics.quantities.unit_text import read_unit
from engine.mathematics.quantities.units import Quantity, read_quantity, same_quantity

_MAX_MATH_VERIFY_CHARS = 300
_SMALLEST_FOR_MATH_VERIFY = 1e-5
_FLOAT_ROUNDING, _NUMERIC_PRECISION = 40, 60
_MOST_BITS, _MOST_FACTORS = 40_000, 100
_NO_FORMULA = re.compile(
    r"(?<![A-Za-z\\{])[A-Za-z]{4,}|\d\s+\d|\\(?:text\w*|mbox|mathrm)(?![A-Za-z])|vmatrix"
    r"|\\(?:sum|prod|[dt]?binom|choose)(?![A-Za-z])|gcd|lcm"
    r"|\\(?:triangle|angle|measuredangle|overline|overrightarrow|overleftrightarrow|vec|widehat|square|odot|sim|cong)"
    r"|\\(?:parallel|perp|mid|nmid|equiv|partial|nabla|prime|Re|Im)(?![A-Za-z])|\d\s*'"
    r"|mod|[A-Za-z](?<!sqrt)\s*\[\s*(?:-?\d+|[a-z])\s*\]|[A-Za-z]\s*(?:\^\s*\{\s*(?:-\s*1|\([^{}]*\))\s*\}|'+)\s*\(|:"
)  # words; "20 4"; remarks, which Math-Verify leaves out; determinants, which it takes for matrices; what it evaluates;
# points of a figure and inverse functions, which it takes for products and reciprocals; derivatives, whose signs it
# cancels; elements of arrays; minutes of arc and feet, whose signs it leaves out
_COMPOSITION = re.compile(r"[A-Za-z)}]\s*\\circ\s*[A-Za-z(\\]")
"""``f \\circ g``. After a number the sign means degrees."""
_BOLD = re.compile(r"\\(?:mathbf|boldsymbol)\s*(?:\{\s*([A-Za-z])\s*\}|([A-Za-z])(?![A-Za-z]))")
_VECTOR = re.compile(_BOLD.pattern.replace("mathbf", "mathbf|vec|hat"))
_PRODUCT_OF_VECTORS = re.compile(rf"{_VECTOR.pattern}\s*(?:\\times\s*)?{_VECTOR.pattern}")
"""A product of vectors or matrices, which has an order."""
_CALL = re.compile(r"(?<![A-Za-z\\])[fgh]'*\s*\([^()]*[A-Za-z][^()]*\)")
_LOOKS_LIKE_MATH = re.compile(r"[\d^_+*/=-]|\\[A-Za-z]")
_LETTER = re.compile(r"[A-Za-z]")
_INTEGRATION = re.compile(r"\+\s*[Cc]\s*\Z")
_DEGREE = read_unit("deg")
_MULTIPLE_OF_PI = re.compile(
    r"-?\s*(?:\d+\s*)?\\?pi(?:\s*/\s*\d+)?|-?\s*\\frac\s*\{\s*-?(?:\d+\s*)?\\pi\s*\}\s*\{\s*\d+\s*\}", re.ASCII
)
"""An angle in radians: pi degrees are another one."""
_PRINTED = {"E": "e", "I": "i"}
"""Constants as SymPy prints them, and as they are written. ``E`` and ``I`` alone are variables."""


class _NeedsMathVerify(Exception):  # noqa: N818 - control flow, not an error
    """Math-Verify has to be imported first."""


def load_math_verify(_: object) -> None:
    """Import Math-Verify."""
    import math_verify  # noqa: F401 - slow to import: only in the worker


def judge(payload: dict[str, Any]) -> dict[str, Any] | None:
    """Decide on one answer.

    Args:
        payload: ``answer`` and ``truth`` (cleaned texts), ``comparison`` (exact or measured), ``rel_tol``.

    Returns:
        ``{"correct": bool, "method": str}``; None if ``load_math_verify`` has to be called first.
    """
    comparer = WorkerComparer(payload["comparison"], payload["rel_tol"])
    try:
        correct = comparer.same_answers(payload["answer"], payload["truth"])
    except _NeedsMathVerify:
        return None
    return {"correct": correct, "method": comparer.method}


class WorkerComparer(Comparer):
    """Compares with algebra and Math-Verify."""

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

    def same_ranges(self, interval: Shape, relation: Shape) -> bool:
        """Solve a linear inequality of one variable, and compare the interval of its solutions."""
        self.method = "symbolic"
        try:
            difference = _difference(relation)
            bound = linear_bound(difference)
            if bound is None or (interval.name and interval.name not in symbols_of(difference)):
                return False
            ends = [None if "infty" in end.text else constant_value(read_formula(end.text)) for end in interval.parts]
        except FormulaSyntaxError:
            return False
        value, rises = bound  # left - right < 0: below the bound where it rises
        open_end, said = ends if rises else ends[::-1]
        brackets = "()" if relation.text == "<" else "(]" if rises else "[)"
        return interval.text == brackets and open_end is None and said is not None and same_constant(said, value)

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
        has_order = _have_order(answer, truth)
        answer, truth = _with_names_of_vectors(answer, truth)
        if has_order and not written_alike(answer, truth):
            return False
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
        has_degrees = (answer_unit == _DEGREE) != (truth_unit == _DEGREE)
        if not (has_degrees and _MULTIPLE_OF_PI.fullmatch(truth_core)) and self._formulas(answer_core, truth_core):
            return True
        if has_degrees:  # pi/6 is 30 degrees
            in_radians = (rf"({core})\pi/180" if unit == _DEGREE else core for core, unit in sides)
            if self._formulas(*in_radians):
                return True
        return r"\circ" in answer + truth and self._formulas(answer, truth)  # degrees inside the formula: \tan 75^\circ

    def _formulas(self, answer: str, truth: str) -> bool:
        has_order = _have_order(answer, truth) or _calls(answer) != _calls(truth)
        answer, truth = _with_names_of_vectors(answer, truth)
        if has_order and not written_alike(answer, truth):
            return False
        try:
            left, right = read_formula(_as_fraction(answer)), read_formula(_as_fraction(truth))
        except FormulaSyntaxError as error:
            if error.kind == "too_large":
                return False
            if written_alike(answer, truth):
                self.method = "text"
                return True
            decision = self._by_math_verify(answer, truth)
            if decision is not None:
                self.method = "math_verify"
            return bool(decision)
        left, right = _with_names_of(left, right), _with_names_of(right, left)
        left = with_parameter_of(left, right)
        by_value = self._by_value(answer, truth, left, right)
        return same_formula(left, right) if by_value is None else by_value

    def _by_value(self, answer: str, truth: str, left: Node, right: Node) -> bool | None:
        """Compare a decimal with an exact constant; None if this decides nothing."""
        said, meant = read_numeral(answer), read_numeral(truth)
        if self.rel_tol is None and not (said and said.rounded) and not (meant and meant.rounded):
            return None
        x, y = constant_value(left), constant_value(right)
        if x is None or y is None:
            return None
        if self.rel_tol is not None:
            return same_number(Numeral(x), Numeral(y), self.rel_tol)
        return (
            bool((said and said.rounded and shows(said, y)) or (meant and meant.rounded and rounds_to(x, meant)))
            or None
        )

    def _by_math_verify(self, answer: str, truth: str) -> bool | None:
        """Compare formulas that our parser cannot read by Math-Verify; None if it cannot read them either.

        Only its LaTeX parser is used, because its parser of plain text evaluates the text. Its time limits are off,
        because the worker pool has its own. Very small numbers give None, because Math-Verify rounds them to 0, and
        so do powers and factorials that it would take long to evaluate.
        """
        for text in (answer, truth):
            if len(text) > _MAX_MATH_VERIFY_CHARS or _NO_FORMULA.search(text) or not _LOOKS_LIKE_MATH.search(text):
                return None
        if "math_verify" not in sys.modules:
            raise _NeedsMathVerify
        import math_verify  # slow to import: only in the worker

        config = [math_verify.LatexExtractionConfig()]
        said, meant = (
            math_verify.parse(f"${text}$", config, fallback_mode="no_fallback", parsing_timeout=None)
            for text in (answer, truth)
        )
        if not said or not meant or any(_is_large(value) or _is_doubtful(value) for value in (*said, *meant)):
            return None
        is_same = math_verify.verify(
            meant, said, float_rounding=_FLOAT_ROUNDING, numeric_precision=_NUMERIC_PRECISION, timeout_seconds=None
        )
        return bool(is_same) and not _differ_in_case(answer, truth)


def _differ_in_case(answer: str, truth: str) -> bool:
    """Whether other letters are capitals, except in a constant of integration. Math-Verify does not tell C from c."""
    said, meant = ({*_LETTER.findall(_INTEGRATION.sub("", text))} for text in (answer, truth))
    return said != meant and {*map(str.lower, said)} == {*map(str.lower, meant)}


def _have_order(*texts: str) -> bool:
    """Whether one of the texts has a composition of functions, or a product of vectors or matrices."""
    return any(pattern.search(text) for pattern in (_COMPOSITION, _PRODUCT_OF_VECTORS) for text in texts)


def _with_names_of_vectors(answer: str, truth: str) -> tuple[str, str]:
    r"""Two formulas with names for ``\mathbf{i}`` and ``\vec{a}``; where only one has any, bold letters are letters."""
    if _VECTOR.search(answer) and _VECTOR.search(truth):
        return _VECTOR.sub(r" \1\2_{v} ", answer), _VECTOR.sub(r" \1\2_{v} ", truth)
    return _BOLD.sub(r" \1\2 ", answer), _BOLD.sub(r" \1\2 ", truth)


def _as_fraction(text: str) -> str:
    r"""``2\frac{1}{2}`` as 5/2; in a formula it is a product."""
    number = read_numeral(text) if "frac" in text or "/" in text else None
    return text if number is None else f"({number.value})"


def _calls(text: str) -> list[str]:
    """The calls of unknown functions: f(2x) is no product."""
    return sorted("".join(call.split()) for call in _CALL.findall(text))


def _with_names_of(formula: Node, other: Node) -> Node:
    """A formula with ``e`` for ``E`` and ``i`` for ``I``, where only the other formula has ``e`` or ``i``."""
    names, others = formula.names, other.names
    printed = {name: Name(one) for name, one in _PRINTED.items() if name in names - others and one in others - names}
    return substitute(formula, printed) if printed else formula


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


def _is_large(value: Any) -> bool:
    """Whether a value from Math-Verify, which is not evaluated yet, has a power or a factorial of too many digits.

    The parts of a value come before it, so that no exponent of an exponent is computed that is too large.
    """
    import sympy  # loaded with Math-Verify

    return not isinstance(value, str) and any(map(_is_large_part, sympy.postorder_traversal(value)))


def _is_large_part(part: Any) -> bool:
    import sympy

    if isinstance(part, sympy.factorial):
        return part.args[0].is_number and not abs(part.args[0].evalf(15)) < _MOST_FACTORS
    if not isinstance(part, sympy.Pow | sympy.MatPow) or not part.exp.is_number or part.base.is_Symbol:
        return False
    exponent = abs(part.exp.evalf(15))
    if not part.base.is_Rational and not part.base.is_Float:
        return not exponent < _MOST_FACTORS
    digits = max(abs(part.base.p), part.base.q).bit_length() if part.base.is_Rational else 1
    return not exponent * digits < _MOST_BITS


def _is_doubtful(value: Any) -> bool:
    """Whether a value from Math-Verify is text, not a finite number, or rounded to 0 (as are parts that it skips)."""
    if isinstance(value, str):
        return True
    if not getattr(value, "is_number", False):
        return False
    number = value.evalf(15)
    return not number.is_comparable or not number.is_finite or bool(abs(number) < _SMALLEST_FOR_MATH_VERIFY)
