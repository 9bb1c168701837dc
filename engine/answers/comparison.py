"""Compare the shapes of two answers by the policies that ``shapes`` lists.

A comparer first uses ``plain_values``, which takes microseconds. ``Comparer`` does only this.
``symbolic.WorkerComparer``, which runs in a worker process, also uses algebra.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from engine.answers.decimal_comma import shows_decimal_commas, with_decimal_point
from engine.answers.matrices import as_text
from engine.answers.plain_values import same_plain_quantity, same_plain_value, without_tail
from engine.answers.relations import is_asked_for, is_constant, is_name
from engine.answers.shape_reading import read_shape
from engine.answers.shapes import Shape, all_but, as_interval
from engine.answers.spoken import remainder
from engine.mathematics.quantities.numerals import read_numeral

Comparison = Literal["exact", "measured"]
"""How answers are compared: as exact values, or as measured quantities with a unit and a tolerance."""


_COORDINATES = re.compile(r"[xyz]|[A-Z]{2}")
"""In a truth ``x + y = 5`` these are coordinates of a line. ``a + b = 5`` asks for a value."""


_POINT = re.compile(r"([A-Z])'?\s*(\(.*\))")
_CHOICES = re.compile("[A-H]{2,8}")


class NeedsWorkerError(Exception):
    """Two answers cannot be compared without algebra."""


class Comparer:
    """Compares the shape of an answer with the shape of the truth, without heavy libraries and time limits.

    Args:
        comparison: how values are compared.
        rel_tol: a relative tolerance that replaces the rules for significant figures.

    Attributes:
        method: the method of the last decision, as in ``Verdict``.
    """

    def __init__(self, comparison: Comparison, rel_tol: float | None) -> None:
        self.comparison = comparison
        self.rel_tol = rel_tol
        self.method = "text"

    def same_formulas(self, answer: str, truth: str) -> bool:
        """Compare values that ``plain_values`` cannot decide. Raises NeedsWorkerError."""
        raise NeedsWorkerError

    def same_equations(self, answer: Shape, truth: Shape) -> bool:
        """Compare two relations of the same sign. Raises NeedsWorkerError unless their texts are equal."""
        if answer != truth:
            raise NeedsWorkerError
        return True

    def same_ranges(self, interval: Shape, relation: Shape) -> bool:
        """Compare an interval with an inequality that is none yet, such as ``2x < 6``. Raises NeedsWorkerError."""
        raise NeedsWorkerError

    def same_answers(self, answer: str, truth: str, shape: Shape | None = None) -> bool:
        """Compare two cleaned texts. ``1,5`` is also read as a decimal where it has a unit, or the other is a decimal.

        Args:
            answer, truth: the texts.
            shape: the shape of the truth, if it has been read already.
        """
        if "mod" in answer + truth and (decision := self._same_remainders(answer, truth)) is not None:
            return decision
        if self.same(read_shape(answer), shape or read_shape(truth)):
            return True
        if "," not in answer + truth or not any(map(shows_decimal_commas, (answer, truth))):
            return False
        return self.same(*(read_shape(with_decimal_point(text)) for text in (answer, truth)))

    def _same_remainders(self, answer: str, truth: str) -> bool | None:
        r"""Compare ``17 \pmod{20}`` with another remainder, or by its value with a number; None without a remainder."""
        said, meant = remainder(answer), remainder(truth)
        if said and meant:
            return said[1] == meant[1] and (said[0] - meant[0]) % meant[1] == 0
        if said:
            return self.same(Shape("value", str(said[0])), read_shape(truth))
        return self.same(read_shape(answer), Shape("value", str(meant[0]))) if meant else None

    def same(self, answer: Shape, truth: Shape) -> bool:
        """Whether an answer has the shape and the values of the truth."""
        answer, truth = _unwrapped(answer), _unwrapped(truth)
        kinds = {answer.kind, truth.kind}
        for kind, same in (
            ("relation", self._same_relation),
            ("ratio", self._same_ratio),
            ("matrix", self._same_matrix),
            ("union", self._same_union),
            ("interval", self._same_interval),
        ):
            if kind in kinds:
                return same(answer, truth)
        if kinds == {"value"}:
            return self._same_named_values(answer, truth)
        if kinds == {"list", "value"}:
            letters, word = (answer, truth) if truth.kind == "value" else (truth, answer)
            if _CHOICES.fullmatch(word.text):
                return [part.text for part in letters.parts] == list(word.text)
            return truth.kind == "value" and self._are_notations_of(answer.parts, truth)
        if kinds == {"set", "value"}:
            return self._same_elements(_elements(answer), _elements(truth))
        if kinds == {"tuple", "value"}:
            return self._same_point(answer, truth)
        if "value" in kinds or kinds == {"set", "tuple"}:
            return False
        answer, truth = self._without_repetitions(answer), self._without_repetitions(truth)
        if len(answer.parts) == len(truth.parts) and self._same_collection(answer, truth):
            return True
        return kinds == {"set"} and self._same_elements(answer.parts, truth.parts)

    def _are_notations_of(self, answers: Sequence[Shape], truth: Shape) -> bool:
        """Whether several answers are one value: ``1/2 or 0.5``."""
        return len({answer.name for answer in answers}) == 1 and all(self.same(answer, truth) for answer in answers)

    def _same_elements(self, answers: Sequence[Shape], truths: Sequence[Shape]) -> bool:
        """Whether each element of a set is in the other one, also where it is repeated in another notation."""
        return all(any(self.same(answer, truth) for truth in truths) for answer in answers) and all(
            any(self.same(answer, truth) for answer in answers) for truth in truths
        )

    def _same_values(self, answer: str, truth: str) -> bool:
        plain = same_plain_quantity if self.comparison == "measured" else same_plain_value
        decision = plain(answer, truth, self.rel_tol)
        if decision is None:
            return self.same_formulas(answer, truth)
        self.method = decision.method
        return decision.correct

    def _same_named_values(self, answer: Shape, truth: Shape) -> bool:
        """``x = 5`` equals 5 and x = 5, but not y = 5."""
        if answer.name and truth.name and _are_different_letters(answer.name, truth.name):
            return self.same_equations(_as_relation(answer), _as_relation(truth))
        return self._same_values(answer.text, truth.text)

    def _same_collection(self, answer: Shape, truth: Shape) -> bool:
        by_name = {part.name: part for part in answer.parts}
        if _are_named(answer) and by_name.keys() == {part.name for part in truth.parts}:
            return all(self.same(by_name[part.name], part) for part in truth.parts)
        is_ordered = "tuple" in (answer.kind, truth.kind) or _are_named(answer) or _are_named(truth)
        return (self._same_in_order if is_ordered else self._same_in_any_order)(answer.parts, truth.parts)

    @staticmethod
    def _without_repetitions(shape: Shape) -> Shape:
        """A set, or a list of tuples, with each element once."""
        is_set = shape.kind == "set" or (shape.kind == "list" and {part.kind for part in shape.parts} == {"tuple"})
        return Shape(shape.kind, parts=tuple(dict.fromkeys(shape.parts))) if is_set else shape

    def _same_ratio(self, answer: Shape, truth: Shape) -> bool:
        """Two ratios, reduced or not; a ratio of two terms and a quotient, but no integer."""
        if answer.kind != truth.kind:
            ratio, other = (answer, truth) if answer.kind == "ratio" else (truth, answer)
            if ratio.text != ":" or len(ratio.parts) != 2 or other.kind != "value" or _is_integer(other.text):
                return False
            quotient = "({})/({})".format(*(part.text for part in ratio.parts))
            return self._same_values(*((quotient, other.text) if ratio is answer else (other.text, quotient)))
        if len(answer.parts) != len(truth.parts):
            return False
        if answer.text != ":" or truth.text != ":" or (_is_clock(answer) and _is_clock(truth)):
            return self._same_in_order(answer.parts, truth.parts)
        (said, *others), (meant, *true) = answer.parts, truth.parts
        return all(
            self._same_values(f"({one.text})*({meant.text})", f"({other.text})*({said.text})")
            if all(is_constant(part.text) for part in (one, other, said, meant))
            else self.same(one, other) and self.same(said, meant)
            for one, other in zip(others, true, strict=True)
        )

    def _same_point(self, answer: Shape, truth: Shape) -> bool:
        """``A(1, 2)`` is (1, 2). In a truth, ``C(5, 2)`` and ``P(5, 2)`` may be numbers."""
        named, point = (answer, truth) if truth.kind == "tuple" else (truth, answer)
        found = _POINT.fullmatch(named.text)
        if found is None or (named is truth and found[1] in "CP"):
            return False
        place = read_shape(found[2])
        return self.same(*((place, point) if named is answer else (point, place)))

    def _same_matrix(self, answer: Shape, truth: Shape) -> bool:
        """Two matrices; a matrix and the tuple of its rows, its only row or column; a matrix and a sum of matrices."""
        if answer.kind == truth.kind:
            return len(answer.parts) == len(truth.parts) and self._same_in_order(answer.parts, truth.parts)
        matrix, other = (answer, truth) if answer.kind == "matrix" else (truth, answer)
        if other.kind == "value" and r"\begin{" in other.text:
            source = as_text([[cell.text for cell in row.parts] for row in matrix.parts])
            return self.same_formulas(*((source, other.text) if matrix is answer else (other.text, source)))
        if other.kind not in ("tuple", "list"):
            return False
        vector = Shape("tuple", parts=_entries(matrix))
        return self.same(*((vector, other) if matrix is answer else (other, vector)))

    def _same_in_order(self, answers: Sequence[Shape], truths: Sequence[Shape]) -> bool:
        return all(self.same(answer, truth) for answer, truth in zip(answers, truths, strict=True))

    def _same_in_any_order(self, answers: Sequence[Shape], truths: Sequence[Shape]) -> bool:
        left = list(answers)
        for truth in truths:
            match = next((at for at, answer in enumerate(left) if self.same(answer, truth)), None)
            if match is None:
                return False
            del left[match]
        return True

    def _same_interval(self, answer: Shape, truth: Shape) -> bool:
        answer, truth = as_interval(answer), as_interval(truth)
        if answer.kind != "interval" or truth.kind != "interval" or answer.text != truth.text:
            return False
        if answer.name and truth.name and _are_different_letters(answer.name, truth.name):
            return False
        return self._same_in_order(answer.parts, truth.parts)

    def _same_union(self, answer: Shape, truth: Shape) -> bool:
        kinds = {"union" if shape.kind == "list" else shape.kind for shape in (answer, truth)}
        if kinds != {"union"} or len(answer.parts) != len(truth.parts):
            return False
        return self._same_in_any_order(answer.parts, truth.parts)

    def _same_relation(self, answer: Shape, truth: Shape) -> bool:
        answer, truth = _as_relation(answer), _as_relation(truth)
        if answer.kind == truth.kind == "relation":
            return answer.text == truth.text and self.same_equations(answer, truth)
        value, relation = (answer, truth) if truth.kind == "relation" else (truth, answer)
        interval = as_interval(value)
        if value.kind in ("union", "list") and relation.text == "!=" and is_name(relation.parts[0].text):
            return self._same_union(value, all_but(relation.parts[1].text))
        if interval.kind == "interval" and relation.text in ("<", "<="):
            return self.same_ranges(interval, relation)
        if value.kind != "value" or relation.text != "=":
            return False
        *steps, result = relation.parts
        said = without_tail(result.text)[0]
        if all(map(is_constant, [said, *(step.text for step in steps)])):
            if not all(self._same_values(step.text, said) for step in steps):
                return False
        elif not is_asked_for(steps[0].text) or (relation is truth and _COORDINATES.search(steps[0].text)):
            return False
        return self._same_values(*((result.text, value.text) if relation is answer else (value.text, result.text)))


def _unwrapped(shape: Shape) -> Shape:
    while shape.kind in ("tuple", "list", "set") and len(shape.parts) == 1:
        if shape.kind == shape.parts[0].kind == "set":  # a set of sets
            break
        shape = shape.parts[0]
    return shape


def _is_integer(text: str) -> bool:
    number = read_numeral(text)
    return number is not None and number.value.denominator == 1


def _is_clock(ratio: Shape) -> bool:
    """Whether a ratio looks like a time of day, such as 3:45."""
    return len(ratio.parts) == 2 and re.fullmatch(r"[0-5]\d", ratio.parts[1].text) is not None


def _are_named(shape: Shape) -> bool:
    """Whether the parts are different unknowns: x = 1, y = 2."""
    names = [part.name for part in shape.parts]
    return all(names) and len(set(names)) == len(names) > 1


def _are_different_letters(left: str, right: str) -> bool:
    return left != right and len(left.strip("\\")) == 1 and len(right.strip("\\")) == 1


def _elements(shape: Shape) -> tuple[Shape, ...]:
    return shape.parts if shape.kind == "set" else (shape,)


def _entries(matrix: Shape) -> tuple[Shape, ...]:
    """The entries of a matrix of one row or one column; otherwise its rows."""
    if len(matrix.parts) == 1:
        return matrix.parts[0].parts
    if all(len(row.parts) == 1 for row in matrix.parts):
        return tuple(row.parts[0] for row in matrix.parts)
    return matrix.parts


def _as_relation(value: Shape) -> Shape:
    if value.kind != "value" or not value.name:
        return value
    return Shape("relation", "=", (Shape("value", value.name), Shape("value", value.text)))
