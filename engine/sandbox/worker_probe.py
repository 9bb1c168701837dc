"""Jobs that show a worker's limits hold; the tests and ``doctor`` run them."""

from __future__ import annotations

from typing import Any


def echo(payload: Any) -> Any:
    """Give the payload back."""
    return payload


def fail(payload: Any) -> Any:
    """Raise with the payload as message."""
    raise RuntimeError(str(payload))


def spin(payload: Any) -> Any:
    """Never end."""
    while True:
        pass


def hoard(payload: Any) -> Any:
    """Ask for more memory than any limit grants."""
    return len(bytearray(1 << 40))
