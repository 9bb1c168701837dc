"""Free parameters of an answer: the constant of integration in ``x^2 + C``, the integer in ``pi/2 + k pi``.

Their letter has no meaning. Other names are compared as written.
"""

from __future__ import annotations

import re

from engine.mathematics.equivalence import symbols_of
from engine.mathematics.parsing.tree import Apply, Name, Node, Number, substitute

_CONSTANTS_OF_INTEGRATION = frozenset(("C", "c", "K", "C_1", "c_1", "C_0", "c_0"))
_INTEGERS = frozenset("knmjl")
_NUMBERED = re.compile(r"[Cc]_\d")
"""The constants of a solution of a differential equation."""
_PERIODS = (90, 180, 360)


def with_parameter_of(answer: Node, truth: Node) -> Node:
    """The answer with the truth's letter for its free parameter, where one letter is all that they differ in."""
    only_said, only_meant = symbols_of(answer) - symbols_of(truth), symbols_of(truth) - symbols_of(answer)
    numbered = {name: Name(name.swapcase()) for name in only_said if _NUMBERED.fullmatch(name)}
    if numbered and {name.swapcase() for name in numbered} == only_meant and len(numbered) == len(only_said):
        return substitute(answer, numbered)
    if len(only_said) != 1 or len(only_meant) != 1:
        return answer
    (said,), (meant,) = only_said, only_meant
    for names, is_parameter in ((_CONSTANTS_OF_INTEGRATION, _is_added), (_INTEGERS, _is_multiple_of_a_period)):
        if {said, meant} <= names and is_parameter(answer, said) and is_parameter(truth, meant):
            return substitute(answer, {said: Name(meant)})
    return answer


def _terms(node: Node) -> tuple[Node, ...]:
    return node.arguments if isinstance(node, Apply) and node.function == "add" else (node,)


def _is_added(node: Node, name: str) -> bool:
    """Whether a name is one term of a sum with other variables, and stands nowhere else."""
    terms = _terms(node)
    others = [term for term in terms if term != Name(name)]
    return len(others) == len(terms) - 1 and bool(others) and not any(name in term.names for term in others)


def _is_multiple_of_a_period(node: Node, name: str) -> bool:
    """Whether a name stands in one term of a sum only, as a factor beside pi or degrees of a turn."""
    terms = [term for term in _terms(node) if name in term.names]
    return len(terms) == 1 and _has_period(terms[0]) and _is_linear(terms[0], name)


def _has_period(term: Node) -> bool:
    if isinstance(term, Number):
        return term.value in _PERIODS
    if isinstance(term, Name):
        return term.name == "pi"
    return isinstance(term, Apply) and any(map(_has_period, term.arguments))


def _is_linear(term: Node, name: str) -> bool:
    if term == Name(name):
        return True
    if not isinstance(term, Apply):
        return False
    holding = [argument for argument in term.arguments if name in argument.names]
    if len(holding) != 1 or (term.function == "div" and holding[0] is not term.arguments[0]):
        return False
    return term.function in ("mul", "div", "neg", "add") and _is_linear(holding[0], name)
