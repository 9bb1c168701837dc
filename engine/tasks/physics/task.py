"""Physics problems: an answer with a unit, and dimensions that agree along the rules."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from fractions import Fraction

from engine.answers.normalise import normalised
from engine.answers.shapes import read_shape
from engine.answers.verify import is_value, verify_answer
from engine.mathematics.quantities.dimensions import Dimension, dimension_checks, is_pure_constant
from engine.mathematics.quantities.units import (
    Quantity,
    dimension_of,
    from_base_units,
    read_quantity,
)
from engine.records import Scaffold
from engine.tasks.physics import DATASET_NAMES
from engine.tasks.scaffold_task import ScaffoldTask

_FIGURES = 12


def _stated_quantity(stated: str) -> Quantity | None:
    """The quantity in a stated answer such as "v = 3 m/s", "about 3 m/s", "the speed is 3 m/s"."""
    shape = read_shape(normalised(stated, "measured"))
    return read_quantity(shape.text) if shape.kind == "value" else None


def _decimal_text(value: Fraction) -> str:
    """An exact value of any size, rounded to 12 figures."""
    with localcontext(prec=_FIGURES, Emax=MAX_EMAX, Emin=MIN_EMIN):
        number = (Decimal(value.numerator) / Decimal(value.denominator)).normalize()
        return f"{number:f}" if -5 <= number.adjusted() < _FIGURES else f"{number:g}"  # 500, not 5e+2


def _known_dimension(value: object, written: Dimension | None, has_units: bool) -> Dimension | None:
    """A known's dimension. A bare number has none if other knowns have units and it cannot hide one (as 9.8 can)."""
    if written:
        return written
    try:
        number = Fraction(str(value).strip())
    except (ValueError, ZeroDivisionError):
        return None
    return {} if has_units and is_pure_constant(number) else None


class PhysicsTask(ScaffoldTask):
    """Problems whose answer is a quantity with a unit."""

    name = "physics"
    dataset_names = DATASET_NAMES
    answer_form = (
        'a number with its unit, such as 3.2 m/s. Give knowns with units too ("5 kg"), in SI units without '
        "prefixes, so that the rules can compute with the bare numbers"
    )
    comparison = "measured"

    def final_answer(self, executed: str, stated: str | None) -> str:
        """The executed number with the unit of the stated answer; rules compute with bare numbers.

        The number is assumed to be in that unit. If it differs from the stated answer in that unit, but agrees with it
        in SI base units, it is converted: 0.0293 for a stated "29.3 ms" becomes 29.3 ms.
        """
        try:
            value = Fraction(executed)
        except (ValueError, ZeroDivisionError):
            return executed
        quantity = _stated_quantity(stated) if stated and is_value(stated, "measured") else None
        if stated is None or quantity is None or not quantity.written:
            return _decimal_text(value)
        as_stated = f"{_decimal_text(value)} {quantity.written}"
        if verify_answer(as_stated, stated, comparison="measured").correct:
            return as_stated
        converted = 100 * value if quantity.written == "%" else from_base_units(value, quantity.unit)
        from_base = f"{_decimal_text(converted)} {quantity.written}"
        return from_base if verify_answer(from_base, stated, comparison="measured").correct else as_stated

    def logic_parts(self, scaffold: Scaffold, stated: str | None) -> Mapping[str, float | None]:
        """Share of the dimension checks that hold, as ``dimensions``.

        None if nothing could be checked; 0 if that is because no known has a unit, though the stated answer has one.
        """
        written = {
            name: dimension_of(value) if isinstance(value, str) else None for name, value in scaffold.knowns.items()
        }
        has_units = any(written.values())
        known = {name: _known_dimension(value, written[name], has_units) for name, value in scaffold.knowns.items()}
        of_answer = dimension_of(stated) if stated else None
        checks = dimension_checks(scaffold, known, of_answer)
        if not checks:
            return {"dimensions": 0.0 if of_answer and not has_units else None}
        return {"dimensions": sum(checks.values()) / len(checks)}


TASK = PhysicsTask()
