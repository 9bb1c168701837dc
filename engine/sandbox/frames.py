"""Frames of a channel: a length in four bytes, and as many bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable

_LENGTH = struct.Struct(">I")
HEAD_BYTES = _LENGTH.size


def packed(data: bytes) -> bytes:
    """The frame of some bytes."""
    return _LENGTH.pack(len(data)) + data


def take_frame(received: bytearray, most: int, too_long: Callable[[int], Exception]) -> bytes | None:
    """Remove the first frame from the bytes that were received.

    Args:
        received: bytes of an untrusted writer.
        most: length of the longest frame.
        too_long: makes the error about a longer one.

    Returns:
        its content; None if it is not complete.
    """
    if len(received) < HEAD_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(received)
    if length > most:
        raise too_long(length)
    end = HEAD_BYTES + length
    if len(received) < end:
        return None
    frame = bytes(received[HEAD_BYTES:end])
    del received[:end]
    return frame
