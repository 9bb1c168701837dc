"""Read the numbers and units of the known variables of a scaffold."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from engine.mathematics.evaluation import CONSTANTS, evaluate
from engine.mathematics.parsing.notation import clean
from engine.mathematics.parsing.parser import parse_expression
from engine.mathematics.parsing.tree import FormulaSyntaxError
from engine.mathematics.quantities.unit_text import Powers, read_unit
from engine.mathematics.quantities.units import read_quantity
from engine.mathematics.values import MAX_ANSWER_BITS, FormulaValueError, Value, WorkBudget, bits_of, canonical
from engine.records import Scaffold

_MAX_TEXT = 200
_RATIONAL_DIGITS = 15

_DEGREES = read_unit("deg")
_CONVERTS = re.compile(r"radians|deg2rad|180|°|\bdeg", re.IGNORECASE)


@dataclass(frozen=True)
class Known:
    """The number of a known variable, and its unit (empty where there is none)."""

    value: Value
    unit: Powers = ()


def numeric_knowns(scaffold: Scaffold) -> dict[str, Known]:
    """The knowns that are numbers; lists, booleans and words are left out.

    An angle in degrees becomes radians, unless a rule of the scaffold contains such a conversion.
    """
    convert = not any(_CONVERTS.search(edge.rule[:_MAX_TEXT]) for edge in scaffold.causal_graph[:1000])
    knowns: dict[str, Known] = {}
    for name, written in scaffold.knowns.items():
        if known := read_known(written):
            is_angle = convert and known.unit == _DEGREES
            knowns[name] = Known(math.radians(known.value), known.unit) if is_angle else known
    return knowns


def read_known(written: Any) -> Known | None:
    """Read the value of a known.

    Args:
        written: a JSON value: a number, ``"3/4"``, ``"\\\\frac{1}{2}"``, ``"sqrt(41)"``, ``"5 m/s"``,
            ``"3.0 x 10^8 m/s"``.

    Returns:
        the number (decimals exactly; 0.3333333333333333 is read as 1/3) or None.
    """
    if isinstance(written, bool):
        return None
    if isinstance(written, int):
        return Known(written) if written.bit_length() <= MAX_ANSWER_BITS else None
    if isinstance(written, float):
        return Known(_decimal(written)) if math.isfinite(written) else None
    if not isinstance(written, str) or len(written) > _MAX_TEXT or not written.strip():
        return None
    return _read_text(written)


@lru_cache(maxsize=1024)  # the scaffolds of a group have many knowns in common
def _read_text(text: str) -> Known | None:
    cleaned = clean(text)
    quantity = read_quantity(cleaned)
    if quantity is None or quantity.number is None:
        known = _constant_expression(text.strip("$ "))
        return known or (_constant_expression(quantity.formula, quantity.unit) if quantity else None)
    value = canonical(quantity.number.value)
    return Known(value, quantity.unit) if bits_of(value) <= MAX_ANSWER_BITS else None


def _decimal(number: float) -> Value:
    """The exact decimal or fraction of a JSON float; the float itself if there is none."""
    text = repr(number)
    is_decimal = len(text.partition("e")[0].strip("-0.").replace(".", "")) < _RATIONAL_DIGITS
    return canonical(Fraction(text)) if is_decimal else number


def _constant_expression(text: str, unit: Powers = ()) -> Known | None:
    try:
        tree = parse_expression(text)
        if tree.names - CONSTANTS.keys():
            return None
        value = evaluate(tree, {}, WorkBudget(units=2000))
    except (FormulaSyntaxError, FormulaValueError):
        return None
    return Known(value, unit) if bits_of(value) <= MAX_ANSWER_BITS else None
