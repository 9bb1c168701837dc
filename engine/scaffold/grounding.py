"""Whether the target's value is computed from the numbers of the problem.

Structure is rewarded, so structure that has nothing to do with the problem must not be: a scaffold could put the
answer among its knowns and pass it on to the target, or add a number that was chosen for the answer. The grounding of a
scaffold is the share of the numbers behind its target that the problem gives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from engine.mathematics.binding import BoundRule
from engine.mathematics.values import Value, WorkBudget, agree, format_value
from engine.records import Scaffold
from engine.scaffold.conventions import is_conventional
from engine.scaffold.execution import Execution, Program, run
from engine.scaffold.given_values import Known, read_known
from engine.scaffold.problem_numbers import ProblemNumbers, number_leaves, problem_numbers

STRUCTURE_VERSION = 3
"""Version of the definitions of ``r_graph`` and ``r_logic``; stored with each reward."""

_FREE_CONVENTIONS = 4
_CONVENTIONS_PER_NUMBER = 3
_FREE_READS = 4
_READS_PER_NUMBER = 3
_WITH_FOREIGN = 0.5
_COMMON = (0, 1, 2)  # in a rule they are conventional, also where the problem has them
_MOST_SHOWN = 8
_MOST_KNOWNS = 500  # no problem has more; comparing units takes time
_TRIALS: tuple[tuple[Value, Value], ...] = (  # first value and step, for the variables in order of their names
    (3, 2),
    (1_000_003, -1_009),
    (Fraction(7, 2), Fraction(2, 3)),
    (Fraction(-9, 5), Fraction(-4, 7)),
)


@dataclass(frozen=True)
class Grounding:
    """How far a scaffold's target rests on the problem.

    Args:
        score: in [0, 1]. The share of the numbers behind the target that are the problem's; at most one half of it if
            a number is foreign, because one free number suffices to reach any value. 0 if there is no number of the
            problem, if no rule does more than pass a value on, or if the answer itself is given as a known.
        working: share of the rules that the target needs and that do more than pass a value on.
        foreign: the numbers that the problem does not give, as text, at most eight.
        reason: why the score is 0 (``no_number``, ``no_rule``, ``answer_given``); else empty.
    """

    score: float
    working: float
    foreign: tuple[str, ...] = ()
    reason: str = ""


def ground(
    scaffold: Scaffold, execution: Execution, text: str, answers: Sequence[Value] = (), dead: Collection[str] = ()
) -> Grounding:
    """Compare the numbers behind the target with those of a problem's text.

    Knowns that the target does not need, and rules that are words, are not considered. Conventional constants
    (``engine.scaffold.conventions``) are free, up to three for each use of a number of the problem and four more: a
    long row of them would spell any number. If the text has no numbers, they take the place of the problem's. For the
    same reason the rules read variables at most three times for each number of the problem and four times more: sums
    and differences of the given numbers lead to 1, and doublings of it to any number. Each further one counts as a
    number that the problem does not give. Of 20 right recorded scaffolds none comes near it.

    Args:
        scaffold: the scaffold.
        execution: its execution.
        text: the text of the problem.
        answers: the executed and the stated answer, where they are numbers.
        dead: knowns that do not change the target's value; they do not count as numbers of the problem.
    """
    problem = problem_numbers(text)
    needed = _needed(execution.program)
    names = needed.knowns[:_MOST_KNOWNS]
    knowns = {name: known for name in names if (known := read_known(scaffold.knowns[name])) is not None}
    given = {name for name, known in knowns.items() if _is_given(known, problem)}
    others = {name: known.value for name, known in knowns.items() if name not in given}
    passing = _passing(execution.program, needed.rules, others)
    working = len({rule.effect for rule in needed.rules.values()} - passing)
    share = working / len(scaffold.causal_graph) if scaffold.causal_graph else 0.0
    if _gives_answer(scaffold, knowns, answers, problem):
        return Grounding(0.0, share, reason="answer_given")
    if not working and not needed.has_words:
        return Grounding(0.0, share, reason="no_rule")
    numbers = _Numbers(given, others)
    numbers.read(needed.rules.values(), problem)
    foreign = tuple(shown for value in numbers.foreign[:_MOST_SHOWN] if (shown := format_value(value)))
    if any(agree(value, answer) for value in numbers.foreign for answer in answers):
        return Grounding(0.0, share, foreign, "answer_given")
    count = len(numbers.given.difference(dead))
    if not count:
        return Grounding(0.0, share, foreign, "no_number")
    excess = max(0, numbers.conventional - _FREE_CONVENTIONS - _CONVENTIONS_PER_NUMBER * numbers.uses)
    excess += max(0, numbers.reads - _FREE_READS - _READS_PER_NUMBER * count)
    strange = len(numbers.foreign) + excess
    score = count / (count + strange)
    return Grounding(score * _WITH_FOREIGN if strange else score, share, foreign)


class _Numbers:
    """The numbers behind a target.

    Args:
        given: names of the knowns that the problem gives; its numbers that rules write are added as values.
        others: the other knowns.

    Attributes:
        foreign: the values that are neither the problem's nor conventional, each once.
        conventional: how many conventional constants the knowns and the rules have.
        uses: how often rules use a number of the problem.
        reads: how often rules use a variable.
    """

    def __init__(self, given: Collection[str], others: Mapping[str, Value]) -> None:
        self.given: set[object] = set(given)
        self.foreign = [value for value in others.values() if not is_conventional(value)]
        self.conventional = len(others) - len(self.foreign)
        self.uses = self.reads = 0

    def read(self, rules: Iterable[BoundRule], problem: ProblemNumbers) -> None:
        """Add the numbers that rules write."""
        strange: set[Value] = set()
        names = frozenset(self.given)
        for rule in rules:
            self.uses += len(rule.reads & names)
            self.reads += len(rule.reads)
            for value in {
                value for side in (rule.left, rule.right) if side is not None for value in number_leaves(side)
            }:
                if value not in _COMMON and problem.gives(value):
                    self.given.add(value)
                    self.uses += 1
                elif is_conventional(value):
                    self.conventional += 1
                else:
                    strange.add(value)
        self.foreign += strange


@dataclass(frozen=True)
class _Needed:
    """What a target needs: rules that can be computed by place, knowns, and whether it needs a rule that is words."""

    rules: Mapping[int, BoundRule]
    knowns: Sequence[str]
    has_words: bool


def _needed(program: Program) -> _Needed:
    """Follow the rules from the target to the knowns: what a rule reads or, where it is words, its listed causes."""
    computable = {place: rule for place, rule in program.rules if not rule.unknown}
    places: dict[str, list[int]] = defaultdict(list)
    for place, edge in enumerate(program.scaffold.causal_graph):
        places[edge.effect].append(place)
    rules: dict[int, BoundRule] = {}
    found = {program.scaffold.target_variable}
    stack = list(found)
    has_words = False
    while stack:
        for place in places.get(stack.pop(), ()):
            rule = computable.get(place)
            if rule is None:
                has_words = True
                needed = set(program.scaffold.causal_graph[place].cause)
            else:
                rules[place] = rule
                needed = set(rule.reads)
            stack += needed - found
            found |= needed
    return _Needed(rules, [name for name in program.scaffold.knowns if name in found], has_words)


def _passing(program: Program, rules: Mapping[int, BoundRule], fixed: Mapping[str, Value]) -> set[str]:
    """The effects with a rule that gives a constant, or only passes a value on.

    Args:
        program: the compiled scaffold.
        rules: its rules by place.
        fixed: knowns that are not the problem's, with their values: they count as constants.
    """
    budget = WorkBudget()
    return {rule.effect for place, rule in rules.items() if _passes_on(program, place, rule, fixed, budget)}


def _passes_on(program: Program, place: int, rule: BoundRule, fixed: Mapping[str, Value], budget: WorkBudget) -> bool:
    """Whether a rule gives one constant, or the value of one of its causes, whatever the values of its causes are."""
    same = rule.reads - fixed.keys()
    if not same:
        return True
    found: list[Value] = []
    for first, step in _TRIALS:
        values = {name: first + number * step for number, name in enumerate(sorted(rule.reads))} | dict(fixed)
        alone = Program(program.scaffold, ((place, rule),), (), values, {})
        value = run(alone, None, None, budget).values.get(rule.effect)
        if value is None:
            continue
        found.append(value)
        same = frozenset(name for name in same if agree(values[name], value))
        if not same and not agree(found[0], value):
            return False
    is_constant = len(found) > 1 and all(agree(found[0], value) for value in found)
    return is_constant or bool(found and same)


def _is_given(known: Known, problem: ProblemNumbers) -> bool:
    return problem.gives(known.value, known.unit) if problem else is_conventional(known.value)


def _gives_answer(
    scaffold: Scaffold, knowns: Mapping[str, Known], answers: Sequence[Value], problem: ProblemNumbers
) -> bool:
    """Whether the target is a known, or a known that the text does not write is the answer."""
    return scaffold.target_variable in knowns or any(
        agree(known.value, answer) and not problem.states(known.value)
        for known in knowns.values()
        for answer in answers
    )
