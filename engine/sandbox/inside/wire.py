"""Encodes plain Python values as JSON, for both sides of the channel. Nothing is unpickled or evaluated.

None, bool, str, float (including NaN and infinities), integers of at most 64 bits and lists are themselves in JSON.
Every other value is an object with one key, which names its type.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, defaultdict
from typing import Any

MAX_DEPTH = 100
"""Deepest nesting of containers."""

_SMALL = 1 << 63
_SMALL_DIGITS = 20
_MAX_COLLISIONS = 100
_PLAIN_DICTS = frozenset({dict, Counter, OrderedDict, defaultdict})


class NotPlainError(ValueError):
    """A value that is not a plain builtin, is nested too deeply or has too many elements."""


class MalformedError(ValueError):
    """Bytes that :func:`encode` cannot have written."""


def encode(value: Any, max_items: int = 1_000_000) -> bytes:
    """Encode a value.

    Args:
        value: None, bool, int, float, complex, str, bytes, list, tuple, dict, set or frozenset, nested up to
            ``MAX_DEPTH`` levels. Subclasses are refused, except three dicts of ``collections`` (encoded as dicts)
            and named tuples (encoded as tuples).
        max_items: limit of the elements of all containers together.

    Raises:
        NotPlainError: the value has another type, is nested too deeply or has too many elements.
    """
    return json.dumps(to_form(value, max_items), separators=(",", ":")).encode()


def to_form(value: Any, max_items: int = 1_000_000) -> Any:
    """The JSON value that :func:`encode` writes."""
    return _Encoder(max_items).form(value, 0)


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
        if kind is tuple or (tuple in kind.__bases__ and hasattr(kind, "_fields")):
            return {"tuple": self._forms(value, depth)}
        if kind in _PLAIN_DICTS:
            return {"dict": [self._forms(pair, depth) for pair in value.items()]}
        if kind is set or kind is frozenset:
            return {kind.__name__: self._forms(value, depth)}
        if kind is bytes:
            return {"bytes": value.hex()}
        if kind is complex:
            return {"complex": [value.real, value.imag]}
        raise NotPlainError(f"a value of type {kind.__name__} is no plain builtin")

    def _forms(self, values: Any, depth: int) -> list[Any]:
        self._room -= len(values)
        if self._room < 0:
            raise NotPlainError("too many elements")
        return [self.form(each, depth + 1) for each in values]


def decode(data: bytes) -> Any:
    """Decode a value from an untrusted writer.

    Raises:
        MalformedError: :func:`encode` cannot have written the bytes, or many keys share one hash value.
    """
    return from_form(loads(data))


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
    except (TypeError, ValueError, OverflowError) as error:
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
    if kind == "int":
        return int(content, 16)
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "complex":
        return complex(*content)
    if not isinstance(content, list):
        raise MalformedError(f"{kind} of no list")
    if kind == "dict":
        pairs = [_values(pair, depth) for pair in content]
        refuse_collisions([key for key, _ in pairs])
        return dict(pairs)
    values = _values(content, depth)
    if kind == "tuple":
        return tuple(values)
    if kind in ("set", "frozenset"):
        refuse_collisions(values)
        return set(values) if kind == "set" else frozenset(values)
    raise MalformedError(f"unknown kind {kind[:20]!r}")


def _values(forms: Any, depth: int) -> list[Any]:
    if depth > MAX_DEPTH or not isinstance(forms, list):
        raise MalformedError("too deep, or no list")
    return [_value(form, depth + 1) for form in forms]


def refuse_collisions(keys: list[Any]) -> None:
    """Raise if many keys share a hash value. Building a dict of n such keys takes time quadratic in n.

    Counting the distinct hash values is cheap, because they are integers.

    Raises:
        MalformedError: more than 100 keys have the hash value of another key.
    """
    if len(keys) > _MAX_COLLISIONS and len(keys) - len({hash(key) for key in keys}) > _MAX_COLLISIONS:
        raise MalformedError("many keys with one hash value")
