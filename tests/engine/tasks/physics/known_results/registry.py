"""Where the solutions register: for each problem its knowns, a closed form and an independent computation."""

from types import SimpleNamespace

import pint

ureg = pint.UnitRegistry()
Q = ureg.Quantity
KNOWNS: dict[str, dict[str, str]] = {}
CLOSED = {}
NUMERIC = {}


def closed(problem_id, **knowns):
    """Register a formula. It gets the knowns as quantities, so the answer's unit follows from theirs.

    Args:
        problem_id: the problem.
        knowns: every given value, written as it stands in the problem's text ("1.80 m").
    """

    def register(function):
        assert problem_id not in CLOSED, f"two solutions of {problem_id}"
        KNOWNS[problem_id], CLOSED[problem_id] = knowns, function
        return function

    return register


def numeric(problem_id):
    """Register a computation by another way. It gets and gives plain numbers in SI base units."""

    def register(function):
        assert problem_id not in NUMERIC, f"two computations of {problem_id}"
        NUMERIC[problem_id] = function
        return function

    return register


def solve_closed(problem_id, **scaled):
    """The formula's result, a quantity; a known named in ``scaled`` is multiplied by the number given there."""
    quantities = {name: Q(text) * scaled.get(name, 1) for name, text in KNOWNS[problem_id].items()}
    return CLOSED[problem_id](SimpleNamespace(**quantities))


def solve_numeric(problem_id):
    """The computation's result in SI base units, a float."""
    quantities = {name: Q(text).to_base_units().magnitude for name, text in KNOWNS[problem_id].items()}
    return float(NUMERIC[problem_id](SimpleNamespace(**quantities)))
