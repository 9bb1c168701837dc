"""Encodes plain Python values as JSON, for both sides of the channel. Nothing is unpickled or evaluated.

None, bool, str, float (including NaN and infinities), integers of at most 64 bits and lists are themselves in JSON.
Every other value is an object with one key, which names its type.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, ItemsView, KeysView, MappingView
from decimal import Decimal
from fractions import Fraction
from typing import Any

MAX_DEPTH = 100
"""Deepest nesting of containers."""

_SMALL = 1 << 63
_SMALL_DIGITS = 20
_MAX_COLLISIONS = 100
_MAX_FRACTION_BITS = 1 << 16  # reducing a fraction takes time quadratic in its digits
_CONTENTS: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: bytes.__bytes__,
    list: list.copy,
    tuple: lambda value: tuple(tuple.__iter__(value)),
    dict: dict.copy,
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
}
"""The content of a value of a subclass, as the builtin type. The methods of the subclass are not called."""


class NotPlainError(ValueError):
    """A value that is not a plain builtin, is nested too deeply or has too many elements."""


class MalformedError(ValueError):
    """Bytes that :func:`encode` cannot have written."""


def encode(value: Any, max_items: int = 1_000_000) -> bytes:
    """Encode a value.

    Args:
        value: None, bool, int, float, complex, str, bytes, list, tuple, dict, set or frozenset, nested up to
            ``MAX_DEPTH`` levels. Subclasses of these, such as named tuples, are encoded as what they extend, except
            of complex. Also range, and what equals a plain value: a bytearray is sent as bytes, the keys or items of
            a dict as a set, a Decimal as a fraction.
        max_items: limit of the elements of all containers together.

    Raises:
        NotPlainError: the value has another type, is nested too deeply or has too many elements.
    """
    return json.dumps(to_form(value, max_items), separators=(",", ":")).encode()


def to_form(value: Any, max_items: int = 1_000_000) -> Any:
    """The JSON value that :func:`encode` writes."""
    return _Encoder(max_items).form(value, 0)


def encode_result(value: Any, max_items: int) -> bytes:
    """Encode the result of a call; an iterator or a view of a dict as its elements, for test code such as
    ``list(f(3)) == [...]``.
    """
    if hasattr(type(value), "__next__") or isinstance(value, MappingView):
        items = list(itertools.islice(value, max_items + 1))
        return json.dumps({"iterator": to_form(items, max_items)}, separators=(",", ":")).encode()
    return encode(value, max_items)


class _Encoder:
    def __init__(self, max_items: int) -> None:
        self._room = max_items

    def form(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if value is None or kind is bool or kind is str or kind is float:
            return value
        if kind is int:
            return value if -_SMALL <= value < _SMALL else {"int": hex(value)}
        if depth > MAX_DEPTH:
            raise NotPlainError(f"more than {MAX_DEPTH} levels deep")
        if kind is list:
            return self._forms(value, depth)
        if kind is tuple:
            return {"tuple": self._forms(value, depth)}
        if kind is dict:
            return {"dict": [self._forms(pair, depth) for pair in value.items()]}
        if kind is set or kind is frozenset:
            return {kind.__name__: self._forms(value, depth)}
        if kind is bytes or kind is bytearray:
            return {"bytes": value.hex()}
        if kind is complex:
            return {"complex": [value.real, value.imag]}
        return self._other(value, kind, depth)

    def _other(self, value: Any, kind: type, depth: int) -> Any:
        """Values of other types that equal plain ones."""
        if kind is Fraction:
            return {"fraction": [hex(value.numerator), hex(value.denominator)]}
        if kind is Decimal:
            if not value.is_finite():
                return float(value)
            if abs(value.adjusted()) > _MAX_FRACTION_BITS:
                raise NotPlainError("a decimal with many digits")
            above, below = value.as_integer_ratio()
            return {"fraction": [hex(above), hex(below)]}
        if kind is range:
            return {"range": self._forms([value.start, value.stop, value.step], depth)}
        if isinstance(value, KeysView | ItemsView):
            return {"set": self._forms(list(value), depth)}
        for plain, content in _CONTENTS.items():
            if issubclass(kind, plain):
                return self.form(content(value), depth)
        raise NotPlainError(f"a value of type {kind.__name__} is no plain builtin")

    def _forms(self, values: Any, depth: int) -> list[Any]:
        self._room -= len(values)
        if self._room < 0:
            raise NotPlainError("too many elements")
        return [self.form(value, depth + 1) for value in values]


def loads(data: bytes) -> Any:
    """Parse JSON from an untrusted writer. Integers with more digits than ``encode`` writes are refused."""
    try:
        return json.loads(data, parse_int=_small_int)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"not a message: {error}") from None


def from_form(form: Any) -> Any:
    """The value of a JSON value that :func:`to_form` returned."""
    try:
        return _value(form, 0)
    except MalformedError:
        raise
    except (TypeError, ValueError, ArithmeticError) as error:
        raise MalformedError(f"not a value: {error}") from None


def _small_int(digits: str) -> int:
    if len(digits) > _SMALL_DIGITS:
        raise ValueError("a long number in decimal")
    return int(digits)


def _value(form: Any, depth: int) -> Any:
    if isinstance(form, list):
        return _values(form, depth)
    if not isinstance(form, dict):
        return form
    if len(form) != 1:
        raise MalformedError("an object with one key was expected")
    ((kind, content),) = form.items()
    if kind in _FROM_CONTENT:
        return _FROM_CONTENT[kind](content)
    if not isinstance(content, list):
        raise MalformedError(f"{kind} of no list")
    if kind == "fraction":
        return _fraction(*content)
    if kind == "range":
        return range(*content)
    if kind == "dict":
        return _dict([_values(pair, depth) for pair in content])
    values = _values(content, depth)
    if kind not in _FROM_VALUES:
        raise MalformedError(f"unknown kind {kind[:20]!r}")
    return _FROM_VALUES[kind](values)


def _fraction(above: str, below: str) -> Fraction:
    numbers = int(above, 16), int(below, 16)
    if max(number.bit_length() for number in numbers) > _MAX_FRACTION_BITS:
        raise MalformedError("a long fraction")
    return Fraction(*numbers)


def _dict(pairs: list[Any]) -> dict[Any, Any]:
    _distinct([key for key, _ in pairs])
    return dict(pairs)


def _distinct(keys: list[Any]) -> list[Any]:
    """The keys, whose hash values differ. Building a dict of n keys with one hash value takes time quadratic in n.

    Raises:
        MalformedError: more than 100 keys have the hash value of another one.
    """
    if len(keys) - len({hash(key) for key in keys}) > _MAX_COLLISIONS:
        raise MalformedError("many keys with one hash value")
    return keys


_FROM_CONTENT: dict[str, Callable[[Any], Any]] = {
    "int": lambda digits: int(digits, 16),
    "bytes": bytes.fromhex,
    "complex": lambda parts: complex(*parts),
}
_FROM_VALUES: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "iterator": iter,
    "set": lambda values: set(_distinct(values)),
    "frozenset": lambda values: frozenset(_distinct(values)),
}


def _values(forms: Any, depth: int) -> list[Any]:
    if depth > MAX_DEPTH or not isinstance(forms, list):
        raise MalformedError("too deep, or no list")
    return [_value(form, depth + 1) for form in forms]
