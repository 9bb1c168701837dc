"""Physics problems: a number with a unit, and dimensions that must agree along the rules."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from engine.rules.dimensions import Dimension, dimension_checks
from engine.tasks.scaffold_task import REPLY_SCHEMA, ScaffoldTask

if TYPE_CHECKING:
    from engine.records import Scaffold


def with_stated_unit(executed: str, stated: str | None) -> str:
    """The executed number with the unit that the stated answer carries; rules compute with bare numbers."""
    from engine.verifiers.answer_text import clean
    from engine.verifiers.numerals import numeral_prefix

    number = f"{float(Fraction(executed)):.12g}"
    prefix = numeral_prefix(clean(stated)) if stated else None
    return number if prefix is None else f"{number} {prefix[1].strip()}".strip()


def dimension_part(scaffold: Scaffold, stated: str | None) -> dict[str, float | None]:
    """Share of the dimension checks that hold, as ``dimensions``; None where nothing could be judged."""
    known = {name: _dimension(value) for name, value in scaffold.knowns.items()}
    if any(known.values()):  # the scaffold writes units, so what has none is a pure number
        known = {name: {} if isinstance(scaffold.knowns[name], int | float) else found for name, found in known.items()}
    checks = dimension_checks(scaffold, known, _dimension(stated))
    return {"dimensions": sum(checks.values()) / len(checks) if checks else None}


def _dimension(value: object) -> Dimension | None:
    """The dimension of a text with a unit; None for anything else, as a bare number may have lost its unit."""
    from engine.verifiers.units import dimension_of

    found = dimension_of(value) if isinstance(value, str) else None
    return {base: Fraction(power) for base, power in found.items()} if found else None


TASK = ScaffoldTask(
    name="physics",
    answer_form=(
        'a number with its unit, such as 3.2 m/s. Give knowns with units too ("5 kg"), in SI units without '
        "prefixes, so that the rules can compute with the bare numbers"
    ),
    kind="physics",
    executed_answer=with_stated_unit,
    logic_parts=dimension_part,
    reply_schema=REPLY_SCHEMA,
)
