"""Numeric do() on the numbers of a problem: all places where a scaffold uses one number are changed together.

A scaffold can write a number of its problem several times: as two knowns, as a known and a constant in a rule, in two
units, as a share and as the rest of it. Where the target does not change when all of them change, as in
``t = 195 + (crates - 12)``, that number takes no part in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from engine.mathematics.binding import BoundRule
from engine.mathematics.evaluation import evaluate
from engine.mathematics.parsing.tree import Node, Number, children, with_children
from engine.mathematics.quantities.unit_text import Powers
from engine.mathematics.solver import UNMEASURED, limited, solve_in_worker
from engine.mathematics.values import FormulaValueError, Value, WorkBudget, agree, canonical
from engine.scaffold.conventions import COMMON, is_conventional_fraction
from engine.scaffold.execution import Execution, Program, run
from engine.scaffold.problem_numbers import ProblemNumbers

Relation = Literal["scaled", "inverse", "rest of 1", "rest of 100"]
Origin = tuple[float, Relation]
"""A number that the text states, and how a number of the scaffold follows from it."""

_UNITS = 400_000
_MOST_SOLVER_CALLS = 4
_MOST_MOVES = 60
_STEPS = ((0.001, 0.002, 0.003), (0.22, 0.17, 0.28), (-0.24, -0.16, -0.2), (0.19, -0.21, 0.26, -0.15))
"""Shares by which the numbers of a problem change together, in turn."""
_WHOLES = {"rest of 1": 1, "rest of 100": 100}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A number of the problem in a scaffold.

    Args:
        name: the known; None for a number that rules write.
        value: the number in the rules.
        origins: the numbers of the text that it follows from.
    """

    name: str | None
    value: Value
    origins: frozenset[Origin]

    @property
    def sources(self) -> frozenset[float]:
        """The numbers of the text, without the relations."""
        return frozenset(number for number, _ in self.origins)


@lru_cache(maxsize=4096)
def origins_of(problem: ProblemNumbers, value: Value, unit: Powers = ()) -> frozenset[Origin]:
    """The numbers of a text that a number follows from, in one step; the number itself where only a word implies it."""
    try:
        exact, key = abs(Fraction(value)), abs(float(value))
    except (OverflowError, ValueError):
        return frozenset()
    found: set[Origin] = set()
    steps: list[tuple[Fraction, Relation]] = [(exact, "scaled")]
    if exact and exact.numerator.bit_length() < 64:
        steps.append((1 / exact, "inverse"))
    if 0 < exact < 1:
        steps.append((1 - exact, "rest of 1"))
    if problem.has_percentages:
        steps += [(100 * exact, "scaled"), (100 - exact, "rest of 100")]
        steps += [(100 * (1 - exact), "rest of 1"), (100 * (exact - 1), "rest of 1"), (exact - 1, "rest of 1")]
    for step, relation in steps:
        number = problem.stated.nearest(canonical(step)) if step > 0 else None
        if number is not None:
            found.add((float(number), relation))
    found.update((float(number), "scaled") for number in problem.sources_in_other_units(value, unit))
    return frozenset(found) or frozenset({(key, "scaled")})


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a formula reads: values by variable, and what takes the place of the numbers that it writes."""

    values: Mapping[str, Value]
    numbers: Mapping[Value, Value]

    def value(self, node: Node, budget: WorkBudget) -> Value | None:
        """The value of a formula; None where it has none."""
        try:
            return evaluate(_with_numbers(node, self.numbers), self.values, budget)
        except (FormulaValueError, OverflowError):
            return None


class JointMoves:
    """Changes numbers of a problem in one execution, each in all its occurrences.

    Args:
        execution: the execution without changes.
        rules: the rules that the target needs, by place.
        occurrences: all occurrences of numbers of the problem in these rules and in knowns.
    """

    def __init__(self, execution: Execution, rules: Mapping[int, BoundRule], occurrences: Sequence[Occurrence]) -> None:
        self._program = execution.program
        self._target = execution.program.scaffold.target_variable
        self._before = execution.values.get(self._target) if execution.executed else None
        self._base = execution.values
        failed = {failure.effect for failure in execution.failures if failure.kind in UNMEASURED}
        self._measured = {rule.effect for rule in rules.values()} - failed
        self._rules = rules
        self._occurrences = occurrences
        self._uses = Counter(source for occurrence in occurrences for source in occurrence.sources)
        self._known_alive: dict[float, bool] = {}
        self._budget = WorkBudget(units=_UNITS)
        self._solver = limited(solve_in_worker, _MOST_SOLVER_CALLS)
        self._moves = 0

    def changes_target(self, occurrence: Occurrence) -> bool:
        """Whether a number of the text, changed in all its occurrences, changes the target's value.

        True also where it cannot be measured, because the target has no value or the work is used up.
        """
        return self._before is None or any(self._is_alive(source) for source in occurrence.sources)

    def _is_alive(self, source: float) -> bool:
        if source not in self._known_alive:
            self._known_alive[source] = any(self._reacts(source, factor) for factor in _factors(source))
        return self._known_alive[source]

    def _reacts(self, source: float, factor: Fraction) -> bool:
        self._moves += 1
        if self._moves > _MOST_MOVES:
            return True
        values, literals = self._moved({source: factor})
        again = run(self._with(literals), values, self._solver, self._budget)
        if any(failure.kind in UNMEASURED and failure.effect in self._measured for failure in again.failures):
            return True
        after = again.values.get(self._target)
        return after is not None and self._before is not None and not agree(self._before, after)

    def surroundings(self) -> list[Surroundings]:
        """The values as they are, and after changes of all numbers at once, each by another factor."""
        found = [Surroundings(self._base, {})]
        if self._before is None:
            return found
        sources = sorted(self._uses)
        for steps in _STEPS:
            factors = {source: _stepped(source, steps[place % len(steps)]) for place, source in enumerate(sources)}
            values, literals = self._moved(factors)
            literals = {value: moved for value, moved in literals.items() if self._is_own(value)}
            again = run(self._with(literals), values, None, WorkBudget(units=_UNITS))
            found.append(Surroundings(again.values, literals))
        return found

    def _is_own(self, value: Value) -> bool:
        """Whether a number in rules is the problem's rather than conventional."""
        if not is_conventional_fraction(value):
            return True
        named = {source for one in self._occurrences if one.name is not None for source in one.sources}
        return value not in COMMON and any(
            named & one.sources for one in self._occurrences if one.name is None and one.value == value
        )

    def _moved(self, factors: Mapping[float, Fraction]) -> tuple[dict[str, Value], dict[Value, Value]]:
        """The knowns, and the numbers in rules, after a change of numbers of the text."""
        values: dict[str, Value] = {}
        literals: dict[Value, Value] = {}
        for occurrence in self._occurrences:
            origins = [origin for origin in occurrence.origins if origin[0] in factors]
            if not origins:
                continue
            source, relation = max(
                origins, key=lambda origin: (origin == (abs(occurrence.value), "scaled"), self._uses[origin[0]], origin)
            )
            moved = _moved(occurrence.value, relation, factors[source])
            if occurrence.name is None:
                literals[occurrence.value] = moved
            else:
                values[occurrence.name] = moved
        return values, literals

    def _with(self, literals: dict[Value, Value]) -> Program:
        """The program with other numbers in its rules."""
        if not literals:
            return self._program
        changed = {place: _rewritten(rule, literals) for place, rule in self._rules.items()}
        return replace(self._program, rules={**self._program.rules, **changed})


def _factors(source: float) -> tuple[Fraction, ...]:
    """What a number is multiplied by, so that an integer stays one."""
    if not source:
        return ()
    if source.is_integer():
        exact = Fraction(source)
        return ((exact + 1) / exact, Fraction(2), Fraction(3), (exact + 5) / exact, (exact - 1) / exact)
    return Fraction(3, 2), Fraction(1, 2), Fraction(4, 5)


def _stepped(source: float, share: float) -> Fraction:
    """What a number is multiplied by to change by a share of it; an integer stays one, and positive."""
    if not source or not source.is_integer():
        return 1 + Fraction(share)
    step = round(source * share) or (1 if share > 0 else -1)
    return (Fraction(source) + (step if source + step > 0 else -step)) / Fraction(source)


def _moved(value: Value, relation: Relation, factor: Fraction) -> Value:
    if relation == "scaled":
        moved = value * factor
    elif relation == "inverse":
        moved = value / factor
    else:
        moved = _WHOLES[relation] - factor * (_WHOLES[relation] - value)
    return moved if isinstance(moved, float) else canonical(moved)


def _rewritten(rule: BoundRule, literals: dict[Value, Value]) -> BoundRule:
    left = None if rule.left is None else _with_numbers(rule.left, literals)
    return replace(rule, left=left, right=_with_numbers(rule.right, literals))


def _with_numbers(node: Node, literals: Mapping[Value, Value]) -> Node:
    if not literals:
        return node
    if isinstance(node, Number):
        moved = literals.get(node.value)
        return node if moved is None or isinstance(moved, float) else Number(moved)
    return with_children(node, [_with_numbers(part, literals) for part in children(node)])
