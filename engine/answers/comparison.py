"""Compare the shapes of two answers by the policies that ``shapes`` lists.

A comparer first uses ``plain_values``, which takes microseconds. ``Comparer`` does only this.
``symbolic.WorkerComparer``, which runs in a worker process, also uses algebra.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.answers.plain_values import same_plain_quantity, same_plain_value, without_tail
from engine.answers.shapes import Shape, all_but, as_interval, is_asked_for, is_constant, is_name, read_shape
from engine.answers.verdict import Comparison

_COORDINATES = re.compile(r"[xyz]|[A-Z]{2}")
"""In a truth ``x + y = 5`` these are coordinates of a line. ``a + b = 5`` asks for a value."""
_POINT = re.compile(r"\A[A-Z]'?(?=\s*\()")
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

    def same_answers(self, answer: str, truth: str) -> bool:
        """Compare two normalised texts."""
        return self.same(read_shape(answer), read_shape(truth))

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
            if _are_different_letters(answer, truth):  # x = 5 is 5, but not y = 5
                return self.same_equations(_as_relation(answer), _as_relation(truth))
            return self._same_values(answer.text, truth.text)
        if kinds == {"list", "value"}:
            letters, word = (answer, truth) if truth.kind == "value" else (truth, answer)
            if _CHOICES.fullmatch(word.text):
                return [part.text for part in letters.parts] == list(word.text)
            are_notations = len({part.name for part in answer.parts}) == 1  # of one value: 1/2 or 0.5
            return truth.kind == "value" and are_notations and all(self.same(part, truth) for part in answer.parts)
        if kinds == {"tuple", "value"}:
            return self._same_point(answer, truth)
        if kinds <= {"set", "value"} or _are_tuples(answer, truth):
            return self._same_elements(_elements(answer), _elements(truth))
        if "value" in kinds or kinds == {"set", "tuple"} or len(answer.parts) != len(truth.parts):
            return False
        by_name = {part.name: part for part in answer.parts}
        if _are_named(answer) and by_name.keys() == {part.name for part in truth.parts}:
            return all(self.same(by_name[part.name], part) for part in truth.parts)
        is_ordered = "tuple" in kinds or _are_named(answer) or _are_named(truth)
        return (self._same_in_order if is_ordered else self._same_in_any_order)(answer.parts, truth.parts)

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
        is_same, self.method = decision
        return is_same

    def _same_ratio(self, answer: Shape, truth: Shape) -> bool:
        """Two ratios, term by term: 2:4 is not 1:2, as the truth is in lowest terms or a range."""
        return answer.kind == truth.kind and self._same_in_order(answer.parts, truth.parts)

    def _same_point(self, answer: Shape, truth: Shape) -> bool:
        """``A(1, 2)`` is (1, 2). In a truth, ``C(5, 2)`` and ``P(5, 2)`` may be numbers."""
        if truth.kind == "value" and truth.text[:1] in "CP":
            return False
        shapes = (answer, truth)
        left, right = (read_shape(_POINT.sub("", shape.text)) if shape.kind == "value" else shape for shape in shapes)
        return left.kind == right.kind and self.same(left, right)

    def _same_matrix(self, answer: Shape, truth: Shape) -> bool:
        """Two matrices; a matrix and the tuple of its rows, its only row or column."""
        if answer.kind == truth.kind:
            return self._same_in_order(answer.parts, truth.parts)
        shapes = (answer, truth)
        left, right = (Shape("tuple", parts=_entries(shape)) if shape.kind == "matrix" else shape for shape in shapes)
        return {left.kind, right.kind} <= {"tuple", "list"} and self.same(left, right)

    def _same_in_order(self, answers: Sequence[Shape], truths: Sequence[Shape]) -> bool:
        return len(answers) == len(truths) and all(map(self.same, answers, truths))

    def _same_in_any_order(self, answers: Sequence[Shape], truths: Sequence[Shape]) -> bool:
        unmatched = list(answers)
        for truth in truths:
            index = next((index for index, answer in enumerate(unmatched) if self.same(answer, truth)), None)
            if index is None:
                return False
            del unmatched[index]
        return not unmatched

    def _same_interval(self, answer: Shape, truth: Shape) -> bool:
        answer, truth = as_interval(answer), as_interval(truth)
        if answer.kind != truth.kind or answer.text != truth.text or _are_different_letters(answer, truth):
            return False
        return self._same_in_order(answer.parts, truth.parts)

    def _same_union(self, answer: Shape, truth: Shape) -> bool:
        are_unions = all(shape.kind in ("union", "list") for shape in (answer, truth))
        return are_unions and self._same_in_any_order(answer.parts, truth.parts)

    def _same_relation(self, answer: Shape, truth: Shape) -> bool:
        answer, truth = _as_relation(answer), _as_relation(truth)
        if answer.kind == truth.kind == "relation":
            return answer.text == truth.text and self.same_equations(answer, truth)
        value, relation = (answer, truth) if truth.kind == "relation" else (truth, answer)
        if value.kind in ("union", "list") and relation.text == "!=" and is_name(relation.parts[0].text):
            return self._same_union(value, all_but(relation.parts[1].text))
        if value.kind != "value" or relation.text != "=":
            return False
        *steps, result = relation.parts
        core = without_tail(result.text)[0]
        if all(map(is_constant, [core, *(step.text for step in steps)])):
            if not all(self._same_values(step.text, core) for step in steps):
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


def _are_tuples(*shapes: Shape) -> bool:
    """Whether both are lists of tuples, in which repetitions do not count."""
    return all(shape.kind == "list" and {part.kind for part in shape.parts} == {"tuple"} for shape in shapes)


def _are_named(shape: Shape) -> bool:
    """Whether the parts are different unknowns: x = 1, y = 2."""
    names = [part.name for part in shape.parts]
    return all(names) and len(set(names)) == len(names) > 1


def _are_different_letters(answer: Shape, truth: Shape) -> bool:
    names = {shape.name.strip("\\") for shape in (answer, truth)}
    return len(names) == 2 and all(len(name) == 1 for name in names)


def _elements(shape: Shape) -> tuple[Shape, ...]:
    return (shape,) if shape.kind == "value" else shape.parts


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
