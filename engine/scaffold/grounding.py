"""Whether the target's value is computed from the numbers of the problem.

Structure is rewarded, so structure that has nothing to do with the problem must not be: a scaffold could put the
answer among its knowns and pass it on to the target, or add a number that was chosen for the answer. The grounding of a
scaffold is the share of the numbers behind its target that the problem gives.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from engine.mathematics.binding import BoundRule
from engine.mathematics.parsing.tree import Name, Node, Number, children
from engine.mathematics.values import Value, WorkBudget, agree, format_value
from engine.records import Scaffold
from engine.scaffold.conventions import COMMON, is_conventional, is_distinctive
from engine.scaffold.execution import Execution, Program, run
from engine.scaffold.given_values import Known, read_known
from engine.scaffold.joint_moves import JointMoves, Occurrence, origins_of
from engine.scaffold.made_constants import made_constants
from engine.scaffold.problem_numbers import ProblemNumbers, leaves, problem_numbers

STRUCTURE_VERSION = 6
"""Version of the definitions of ``r_graph`` and ``r_logic``; stored with each reward."""

_FREE_CONVENTIONS = 4
_CONVENTIONS_PER_NUMBER = 3
_FREE_READS = 4
_READS_PER_NUMBER = 3
_WITH_FOREIGN = 0.5
_MOST_TIMES = 6  # how often a rule reads one variable: five times in Heron's formula
_OWN_NUMBERS = 2
_MOST_SHOWN = 8
_MOST_KNOWNS = 500  # no problem has more; comparing units takes time
_TRIALS: tuple[tuple[Value, Value, int], ...] = (  # a, b and c of a + b (3 n - c)^2 for the n-th variable by name
    (12, 18, 0),
    (1_000_003, -1_009, 0),
    (Fraction(7, 2), Fraction(2, 3), 2),
    (Fraction(-9, 5), Fraction(-4, 7), 0),
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
        particular: how far the numbers of the problem are ones that other problems do not have, in [0, 1].
    """

    score: float
    working: float
    foreign: tuple[str, ...] = ()
    reason: str = ""
    particular: float = 0.0


def ground(
    scaffold: Scaffold, execution: Execution, text: str, answers: Sequence[Value] = (), dead: Collection[str] = ()
) -> Grounding:
    """Compare the numbers behind the target with those of a problem's text.

    Knowns that the target does not need, and rules that are words, are not considered. A number of the problem counts
    if the target's value changes when all its occurrences change together (``joint_moves``). Conventional constants
    (``engine.scaffold.conventions``) are free, up to three for each such number and four more: a long row of them would
    spell any number. If the text has no numbers, they take the place of the problem's. For the
    same reason the rules read variables at most three times for each number of the problem and four times more: sums
    and differences of the given numbers lead to 1, and doublings of it to any number. Each further one counts as a
    number that the problem does not give, and so does each constant that rules make out of conventional ones
    (``made_constants``). Of 20 right recorded scaffolds none comes near it.

    Args:
        scaffold: the scaffold.
        execution: its execution.
        text: the text of the problem.
        answers: the executed and the stated answer, where they are numbers.
        dead: knowns that do not change the target's value; they do not count as numbers of the problem.
    """
    problem = problem_numbers(text)
    rules, names, has_words = _needed(execution.program)
    read = {name: read_known(scaffold.knowns[name]) for name in names[:_MOST_KNOWNS]}
    knowns = {name: known for name, known in read.items() if known is not None}
    given = {name for name, known in knowns.items() if _is_given(known, problem)}
    others = {name: known.value for name, known in knowns.items() if name not in given}
    budget = WorkBudget()
    passing = {
        rule.effect for place, rule in rules.items() if _passes_on(execution.program, place, rule, others, budget)
    }
    working = len({rule.effect for rule in rules.values()} - passing)
    share = working / len(scaffold.causal_graph) if scaffold.causal_graph else 0.0
    if _gives_answer(scaffold, knowns, answers, problem):
        return Grounding(0.0, share, reason="answer_given")
    if not working and not has_words:
        return Grounding(0.0, share, reason="no_rule")
    numbers = _Numbers(given, others, rules.values(), problem)
    order = {effect: place for place, effect in enumerate(execution.order)}
    in_order = sorted(rules.values(), key=lambda rule: order.get(rule.effect, len(order)))
    occurrences = _occurrences(numbers, knowns, execution.program.knowns, problem)
    moves = JointMoves(execution, rules, occurrences)
    made = made_constants(in_order, scaffold.target_variable, others, problem.gives, moves.surroundings())
    strange_values = list(dict.fromkeys([*numbers.foreign, *made.values]))
    foreign = tuple(shown for value in strange_values[:_MOST_SHOWN] if (shown := format_value(value)))
    signed = [sign * answer for answer in answers for sign in (1, -1)]
    if any(agree(value, answer) for value in (*strange_values, *made.around_target) for answer in signed):
        return Grounding(0.0, share, foreign, "answer_given")
    own = [one for one in occurrences if (one.name if one.name is not None else one.value) in numbers.given - set(dead)]
    has_many = numbers.conventional > _FREE_CONVENTIONS + _CONVENTIONS_PER_NUMBER
    needs_all = bool(strange_values) or has_many or not problem.distinctive
    live = _live(own, moves, problem.distinctive, needs_all)
    if not live or made.is_all:
        return Grounding(0.0, share, foreign, "no_number")
    uses = len({min(one.sources) for one in live if one.name is not None or not is_conventional(one.value)})
    excess = max(0, numbers.conventional - _FREE_CONVENTIONS - _CONVENTIONS_PER_NUMBER * uses)
    excess += max(0, numbers.reads - _FREE_READS - _READS_PER_NUMBER * len(numbers.given.difference(dead)))
    strange = max(len(numbers.foreign) + excess, len(made.values))
    particular = _particular(_sources(live), problem, not COMMON.issuperset(others.values()))
    score = len(live) / (len(live) + strange)
    return Grounding(score * _WITH_FOREIGN if strange else score, share, foreign, particular=particular)


def _live(
    own: Sequence[Occurrence], moves: JointMoves, distinctive: frozenset[float], needs_all: bool
) -> list[Occurrence]:
    """The numbers of the problem that the target depends on; where not all are needed, as few as decide the score."""
    found: list[Occurrence] = []
    enough = min(_OWN_NUMBERS, len(distinctive))
    for one in sorted(own, key=lambda one: (one.name is None, not one.sources & distinctive)):
        if not needs_all and found and len(distinctive & _sources(found)) >= enough:
            break
        if moves.changes_target(one):
            found.append(one)
    return found


def _sources(occurrences: Iterable[Occurrence]) -> frozenset[float]:
    """The numbers of the text that some occurrences follow from."""
    return frozenset().union(*(one.sources for one in occurrences))


def _particular(sources: frozenset[float], problem: ProblemNumbers, has_others: bool) -> float:
    """How far these numbers of a text tell a scaffold from one that would be written for any other text, in [0, 1].

    Two distinctive numbers suffice. Where a text has only numbers that most texts have, these must be two or more
    without 0, 1, 2 and the fractions that ordinals may be, and the scaffold must use all of them, and no others
    but 0, 1 and 2.
    """
    if problem.distinctive:
        enough = min(_OWN_NUMBERS, len(problem.distinctive))
        return min(1.0, len(sources & problem.distinctive) / enough)
    usual = {float(number) for number in problem.stated if not _may_be_ordinal(number, problem)}.difference(COMMON)
    if not usual:
        return float(any(map(is_distinctive, sources)))
    return float(len(usual) >= _OWN_NUMBERS and usual <= sources and not has_others)


def _may_be_ordinal(number: Fraction, problem: ProblemNumbers) -> bool:
    """Whether a number may be the fraction that an ordinal also says: "third" is 3 and 1/3."""
    return 0 < number < 1 and 1 / number in problem.stated


def _occurrences(
    numbers: _Numbers, knowns: Mapping[str, Known], values: Mapping[str, Value], problem: ProblemNumbers
) -> list[Occurrence]:
    """The knowns and the numbers in rules that follow from numbers of the problem."""
    found = [
        Occurrence(name, values.get(name, known.value), origins_of(problem, known.value, known.unit))
        for name, known in knowns.items()
        if name in numbers.given
    ]
    found += [
        Occurrence(None, value, origins_of(problem, value))
        for value in itertools.islice(sorted(numbers.literals), _MOST_KNOWNS)
        if value and problem.gives(value)
    ]
    return found


class _Numbers:
    """The numbers behind a target.

    Args:
        given: names of the knowns that the problem gives; its numbers that rules write are added as values.
        others: the other knowns.
        rules: the rules that the target needs.
        problem: its numbers.

    Attributes:
        literals: the numbers that the rules write.
        foreign: the values that are neither the problem's nor conventional, each once.
        conventional: how many conventional constants the knowns and the rules have.
        reads: how often rules use a variable.
    """

    def __init__(
        self, given: Collection[str], others: Mapping[str, Value], rules: Iterable[BoundRule], problem: ProblemNumbers
    ) -> None:
        self.given: set[object] = set(given)
        self.foreign = [value for value in others.values() if not is_conventional(value)]
        self.conventional = len(others) - len(self.foreign)
        self.reads = 0
        self.literals: set[Value] = set()
        strange: set[Value] = set()
        for rule in rules:
            written = [leaf for side in rule.sides for leaf in leaves(side)]
            often = Counter(leaf.name for leaf in written if isinstance(leaf, Name) and leaf.name in rule.reads)
            self.reads += sum(1 + max(0, times - _MOST_TIMES) for times in often.values())
            for value in _written_values(rule.sides):
                self.literals.add(value)
                if value not in COMMON and problem.gives(value):
                    self.given.add(value)
                elif is_conventional(value):
                    self.conventional += 1
                else:
                    strange.add(value)
        self.foreign += strange


def _written_values(sides: Iterable[Node]) -> Iterator[Value]:
    """The numbers in a rule; a term that occurs again, such as ``(a + b + c) / 2`` in Heron's formula, counts once."""
    stack, seen = list(sides), set[Node]()
    while stack:
        node = stack.pop()
        if isinstance(node, Number):
            yield node.value
        elif node not in seen:
            stack += children(node)
            seen.add(node)


def _needed(program: Program) -> tuple[dict[int, BoundRule], list[str], bool]:
    """What the target needs: rules that can be computed by place, knowns, and whether it needs a rule that is words.

    Of a rule, it needs what the rule reads or, where it is words, its listed causes.
    """
    computable = {place: rule for place, rule in program.rules.items() if not rule.unknown}
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
    return rules, [name for name in program.scaffold.knowns if name in found], has_words


def _passes_on(program: Program, place: int, rule: BoundRule, fixed: Mapping[str, Value], budget: WorkBudget) -> bool:
    """Whether a rule gives one constant, or the value of one of its causes, whatever the values of its causes are.

    Args:
        program: the compiled scaffold.
        place, rule: one of its rules.
        fixed: knowns that are not the problem's, with their values: they count as constants.
        budget: the work for all rules.
    """
    same = rule.reads - fixed.keys()
    if not same:
        return True
    found: list[Value] = []
    for first, step, shift in _TRIALS:
        names = enumerate(sorted(rule.reads))
        values = {name: first + step * (3 * number - shift) ** 2 for number, name in names} | dict(fixed)
        alone = Program(program.scaffold, {place: rule}, (), values, {})
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
