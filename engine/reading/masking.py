"""Keeps keys out of everything that is printed or stored: addresses, request fields, messages and replies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

MASK = "***"

_WORD_PIECE = 6
"""A word of a message is masked if it contains this many consecutive characters of a secret. Shorter keys, such as
``EMPTY``, are not secret."""
_REPLY_PIECE = 12
"""The same for replies. Longer, as a model's text may contain the first characters of a kind of key."""

_SHORTEST_VALUE = 16

_SECRET_NAME = re.compile(
    r"(?:^|[-_. ])(?:key|apikey|token|secret|password|passwd|pwd|auth|authorization|credentials?|signature|sig|code)$",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PREFIXED = re.compile(
    r"(?:sk|pk|rk|gsk|csk|hf|xai|nvapi|r8|fw|ghp|glpat|pplx|key|AIza|AKIA|eyJ)(?=[-_.]|[A-Z0-9])(?=.*[a-z0-9]).{12,}"
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ESCAPE = re.compile(rb"(\\\\)|\\u00([2-7][0-9a-fA-F])|\\(/)")


def looks_secret(text: str, shortest: int = 12) -> bool:
    """Whether a text has the form of a key: a known prefix, or a part with letters and digits.

    Args:
        text: a text of more than two words is none.
        shortest: the number of characters from which such a part counts.
    """
    if len(text.split()) > 2:
        return False
    pattern = rf"(?<![A-Za-z0-9])(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{{{shortest},}}"
    return bool(_PREFIXED.match(text) or re.search(pattern, text) or _UUID.fullmatch(text))


def shown_name(name: object) -> str:
    """A name from a configuration as messages show it: quoted, unless a key was written in its place."""
    text = str(name)
    return f"{MASK} (not shown, as it looks like a key)" if looks_secret(text) else repr(text[:100])


def shown_url(url: str, key: str = "") -> str:
    """An address as messages show it: without user, values of the query, and parts that look secret.

    Args:
        url: the address.
        key: a key that may be a part of the path although it does not look secret.
    """
    try:
        parts = urlsplit(url)
        query = "&".join(f"{quote(name)}={MASK}" for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        return MASK
    _, at, host = parts.netloc.rpartition("@")
    is_long = len(key) >= _WORD_PIECE
    path = "/".join(
        MASK if looks_secret(unquote(segment)) or (is_long and key in unquote(segment)) else segment
        for segment in parts.path.split("/")
    )
    return urlunsplit((parts.scheme, f"{MASK}@{host}" if at else host, path, query or (parts.query and MASK), ""))


def secrets_of_url(url: str) -> Iterator[str]:
    """The parts of an address that must not be shown."""
    parts = urlsplit(url)
    if parts.password:
        yield from {parts.password, unquote(parts.password)}
    for name, value in parse_qsl(parts.query):
        if _is_secret_name(name) or looks_secret(value):
            yield value
    yield from (unquote(segment) for segment in parts.path.split("/") if looks_secret(unquote(segment)))
    if looks_secret(parts.fragment):
        yield parts.fragment


def secrets_of_fields(value: Any, name: str = "") -> Iterator[str]:
    """The texts of a JSON value that are secret by their name or by the prefix of a kind of key.

    A text that only has the form of a key is not among them: it may be part of a schema, which replies repeat.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            yield from secrets_of_fields(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from secrets_of_fields(item, name)
    elif isinstance(value, str) and (_is_secret_name(name) or _PREFIXED.match(value)):
        yield value


def without_secrets(value: Any, name: str = "") -> Any:
    """A copy of a JSON value in which texts that are secret, or have the form of a key, are masked.

    Texts may be those of a schema or a template, so only long ones are masked by their form.
    """
    if isinstance(value, dict):
        return {key: without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(item, name) for item in value]
    return MASK if isinstance(value, str) and (_is_secret_name(name) or looks_secret(value, _SHORTEST_VALUE)) else value


class Mask:
    """Replaces secrets in messages and replies.

    Args:
        secrets: the texts to mask.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        known = [secret for secret in dict.fromkeys(secrets) if len(secret) >= _WORD_PIECE]
        self._pieces = {
            secret[start : start + _WORD_PIECE] for secret in known for start in range(len(secret) - _WORD_PIECE + 1)
        }
        # A short word or number, such as "ollama" or "123456", may be part of an answer.
        self._in_replies = [s.encode() for s in known if len(s) >= (16 if s.isdecimal() else 8)]

    def message(self, text: str) -> str:
        """Mask every word that contains a part of a secret; servers quote keys in error messages."""
        return re.sub(r"\S+", lambda word: MASK if any(piece in word[0] for piece in self._pieces) else word[0], text)

    def reply(self, content: bytes) -> bytes:
        """Mask the secrets in the body of a reply, and parts of at least 12 characters; it stays valid JSON."""
        if self._in_replies and (b"\\u00" in content or b"\\/" in content):
            content = _ESCAPE.sub(_unescaped, content)
        for secret in self._in_replies:
            content = _without(content, secret)
        return content


def _without(content: bytes, secret: bytes) -> bytes:
    size = min(_REPLY_PIECE, len(secret))
    pieces = [secret[start : start + size] for start in range(len(secret) - size + 1)]
    if not any(piece in content for piece in pieces):
        return content
    spans: list[list[int]] = []
    # A backslash before a letter makes it an escape such as \n, which is no part of the secret.
    for match in re.finditer(rb"(?<!\\)(?=" + b"|".join(map(re.escape, pieces)) + b")", content):
        if not spans or match.start() >= spans[-1][1]:
            spans.append([match.start(), 0])
        spans[-1][1] = match.start() + size
    for start, end in reversed(spans):
        content = content[:start] + MASK.encode() + content[end:]
    return content


def _unescaped(match: re.Match[bytes]) -> bytes:
    """The character of an escape, unless it must stay escaped in JSON."""
    if match[2] is None:
        return match[3] or match[0]
    character = bytes([int(match[2], 16)])
    return match[0] if character in (b'"', b"\\", b"\x7f") else character


def _is_secret_name(name: str) -> bool:
    return _SECRET_NAME.search(_CAMEL.sub("_", name)) is not None
