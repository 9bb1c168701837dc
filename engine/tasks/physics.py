"""Physics problems: a number with a unit, and dimensions that must agree along the rules."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING

from engine.rules.dimensions import Dimension, dimension_checks, is_pure_constant
from engine.tasks.scaffold_task import REPLY_SCHEMA, ScaffoldTask

if TYPE_CHECKING:
    from engine.records import Scaffold


def with_stated_unit(executed: str, stated: str | None) -> str:
    """The executed number with the unit that the stated answer carries; rules compute with bare numbers."""
    from engine.verifiers.answer_text import clean
    from engine.verifiers.numerals import numeral_prefix

    number = _decimal_text(executed)
    prefix = numeral_prefix(clean(stated)) if stated else None
    return number if prefix is None else f"{number} {prefix[1].strip()}".strip()


def _decimal_text(executed: str) -> str:
    """An exact value in 12 figures, of any size; a text that is no number stays as it is."""
    try:
        value = Fraction(executed)
    except (ValueError, ZeroDivisionError):
        return executed
    with localcontext(prec=12, Emax=MAX_EMAX, Emin=MIN_EMIN):
        return f"{(Decimal(value.numerator) / Decimal(value.denominator)).normalize():g}"


def dimension_part(scaffold: Scaffold, stated: str | None) -> dict[str, float | None]:
    """Share of the dimension checks that hold, as ``dimensions``; None where nothing could be judged."""
    from engine.verifiers.units import dimension_of

    written = {name: _written_dimension(value) for name, value in scaffold.knowns.items()}
    has_units = any(written.values())
    known = {name: _known_dimension(value, written[name], has_units) for name, value in scaffold.knowns.items()}
    checks = dimension_checks(scaffold, known, _exact_powers(dimension_of(stated) if stated else None))
    return {"dimensions": sum(checks.values()) / len(checks) if checks else None}


def _known_dimension(value: object, written: Dimension | None, has_units: bool) -> Dimension | None:
    """A known's dimension. A bare number is pure where other knowns carry units and it hides none (as 9.8 may)."""
    if written:
        return written
    try:
        number = Fraction(str(value).strip())
    except (ValueError, ZeroDivisionError):
        return None
    return {} if has_units and is_pure_constant(number) else None


def _written_dimension(value: object) -> Dimension | None:
    from engine.verifiers.units import dimension_of

    return _exact_powers(dimension_of(value)) if isinstance(value, str) else None


def _exact_powers(found: dict[str, float] | None) -> Dimension | None:
    return None if found is None else {base: Fraction(power) for base, power in found.items()}


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
