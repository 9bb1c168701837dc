"""Execute a scaffold: compute its variables from the knowns to the target by its rules.

A scaffold is "executed" only if the target's value follows from knowns by rules that could be parsed, each with one
solution, without contradiction. Everything else is a partial execution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.mathematics.binding import BoundRule, bind_rule
from engine.mathematics.evaluation import evaluate
from engine.mathematics.parsing.tree import FormulaSyntaxError
from engine.mathematics.rule import parse_rule
from engine.mathematics.solver import solve
from engine.mathematics.values import FormulaValueError, Value, WorkBudget, agree, format_value
from engine.records import Scaffold
from engine.scaffold.given_values import numeric_knowns
from engine.scaffold.graph import reached, work_through

MAX_RULES = 2000
MAX_RULE_CHARACTERS = 200_000  # of all rules together; the time to parse them is linear in it


@dataclass(frozen=True)
class RuleFailure:
    """A rule without a value.

    ``kind``: a kind of FormulaSyntaxError or FormulaValueError, or ``missing_input`` (a cause has no value),
    ``effect_absent`` (an equation that does not contain its effect), ``conflict`` (it contradicts another rule or a
    known), ``rests_on_no_known`` (the target's value does not depend on a known).
    """

    effect: str
    rule: str
    kind: str
    message: str = ""


@dataclass(frozen=True)
class Program:
    """The parsed and bound rules of a scaffold, by index; ``failures`` are the rules that could not be parsed."""

    scaffold: Scaffold
    rules: Mapping[int, BoundRule]
    failures: tuple[RuleFailure, ...]
    knowns: Mapping[str, Value]


@dataclass(frozen=True)
class Execution:
    """The values of a scaffold's variables.

    Args:
        values: all numbers, by variable; the knowns are among them.
        order: the effects, in the order in which they got their values.
        failures: the rules without a value, with the reason.
        executed: whether the target's value follows from knowns.
        answer: the target's value as text, where it was executed.
        rests_on: the variables that the target's value was computed from.
        program: the compiled rules, which can be run again.
    """

    values: Mapping[str, Value]
    order: tuple[str, ...]
    failures: tuple[RuleFailure, ...]
    executed: bool
    answer: str | None
    rests_on: frozenset[str]
    program: Program = field(repr=False)


def compile_scaffold(scaffold: Scaffold) -> Program:
    """Parse and bind all rules. Never raises; a scaffold beyond the limits has no rules and one failure."""
    characters = sum(len(edge.rule) for edge in scaffold.causal_graph)
    if len(scaffold.causal_graph) > MAX_RULES or characters > MAX_RULE_CHARACTERS:
        limits = f"{MAX_RULES} rules or {MAX_RULE_CHARACTERS} characters in them"
        failure = RuleFailure(scaffold.target_variable, "", "too_large", f"more than {limits}")
        return Program(scaffold, {}, (failure,), {})
    knowns = {name: known.value for name, known in numeric_knowns(scaffold).items()}
    variables = {*scaffold.knowns, *(name for edge in scaffold.causal_graph for name in (edge.effect, *edge.cause))}
    rules: dict[int, BoundRule] = {}
    failures: list[RuleFailure] = []
    for index, edge in enumerate(scaffold.causal_graph):
        try:
            rule = parse_rule(edge.rule, edge.effect, edge.cause)
            rules[index] = bind_rule(rule, edge.effect, edge.cause, variables)
        except FormulaSyntaxError as error:
            failures.append(RuleFailure(edge.effect, edge.rule, error.kind, error.what))
    return Program(scaffold, rules, tuple(failures), knowns)


def execute(scaffold: Scaffold) -> Execution:
    """Compute the values of a scaffold's variables. The work is bounded, and no scaffold raises an exception."""
    return run(compile_scaffold(scaffold))


def run(
    program: Program, interventions: Mapping[str, Value] | None = None, budget: WorkBudget | None = None
) -> Execution:
    """As ``execute``, for compiled rules.

    Args:
        program: the rules.
        interventions: values set by do(); the rules of these variables are ignored.
        budget: the work, which several runs may share.
    """
    return _Run(program, interventions or {}, budget or WorkBudget()).execution()


class _Run:
    """The state of one execution."""

    def __init__(self, program: Program, interventions: Mapping[str, Value], budget: WorkBudget) -> None:
        self._program = program
        self._fixed = interventions
        self._budget = budget
        self._values: dict[str, Value] = {**program.knowns, **interventions}
        self._given = frozenset(self._values)
        self._reads: dict[str, frozenset[str]] = {}
        self._failures = list(program.failures)
        self._contradicted: set[str] = set()

    def execution(self) -> Execution:
        program, target = self._program, self._program.scaffold.target_variable
        rules = program.rules
        reads = {index: (rule.effect, rule.reads) for index, rule in rules.items() if rule.effect not in self._fixed}
        for index in work_through(reads, self._given, self._apply):
            lacking = ", ".join(sorted(rules[index].reads - self._values.keys()))
            self._fail(index, "missing_input", f"no value for {lacking[:200]}")
        rests_on = reached(target, self._reads)
        value = self._values.get(target)
        sound = target in self._reads and not (rests_on | {target}) & self._contradicted
        if sound and not rests_on & self._given:
            sound = False
            text = "; ".join(edge.rule for edge in program.scaffold.causal_graph if edge.effect == target)
            message = "no known takes part in the target's value"
            self._failures.append(RuleFailure(target, text, "rests_on_no_known", message))
        answer = format_value(value) if sound and value is not None else None
        if sound and answer is None:
            self._failures.append(RuleFailure(target, "", "too_large", "the target's value is too long to be written"))
        return Execution(
            values=self._values,
            order=tuple(self._values)[len(self._given) :],
            failures=tuple(self._failures),
            executed=answer is not None,
            answer=answer,
            rests_on=rests_on,
            program=program,
        )

    def _apply(self, index: int) -> bool:
        """Apply a rule; return whether its effect got a new value."""
        rule = self._program.rules[index]
        try:
            value = self._value(rule)
        except FormulaValueError as error:
            self._fail(index, error.kind, error.what)
            return False
        is_new = rule.effect not in self._values
        earlier = self._values.setdefault(rule.effect, value)
        if is_new or agree(earlier, value):
            self._reads.setdefault(rule.effect, rule.reads)  # of a known that a rule confirms, too
        else:
            self._contradicted.add(rule.effect)
            self._fail(index, "conflict", f"{format_value(value)} here, {format_value(earlier)} elsewhere")
        return is_new

    def _value(self, rule: BoundRule) -> Value:
        if rule.unknown:
            names = ", ".join(sorted(rule.unknown))[:200]
            raise FormulaValueError("unknown_name", f"the rule uses {names}, which has no value")
        self._budget.charge(2)
        if rule.left is None:
            return evaluate(rule.right, self._values, self._budget)
        if rule.effect not in rule.left.names | rule.right.names:
            raise FormulaValueError("effect_absent", f"the equation does not contain {rule.effect}")
        values = {name: self._values[name] for name in rule.reads}
        return solve(rule.left, rule.right, rule.effect, values, self._budget)

    def _fail(self, index: int, kind: str, message: str) -> None:
        edge = self._program.scaffold.causal_graph[index]
        self._failures.append(RuleFailure(edge.effect, edge.rule, kind, message))
