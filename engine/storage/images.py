"""Images: from a row to a reference that a problem keeps, and from that to what a request carries."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from engine.errors import InputError, MissingInputError, ScaffoldError, quoted
from engine.records import IMAGE_MARK, ImageReference
from engine.storage.append_log import write_file

MOST_MB = 20
"""Providers refuse larger images, most of them smaller ones too."""
_LONGEST_PATH = 1000
_TYPES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}
_URL = re.compile(r"https?://", re.IGNORECASE)
_EMBEDDED = re.compile(r"data:[^,]{0,100};base64,|(?=iVBORw0KGgo|/9j/|R0lGOD|UklGR)", re.IGNORECASE)
"""What base64 stands behind: the head of a data URL, or nothing, where the text begins as an image does."""
_KEYS = ("bytes", "data", "url", "src", "path")
"""Where the objects of datasets and of chats have an image, the most certain place first."""


def looks_like_image(value: Any) -> bool:
    """Whether a value of a row is meant as an image: bytes, a URL, the path of a file, an object with one of them."""
    if isinstance(value, list):
        return bool(value) and all(map(looks_like_image, value))
    if isinstance(value, Mapping):
        return any(value.get(key) for key in _KEYS)
    is_path = (
        isinstance(value, str) and len(value) <= _LONGEST_PATH and re.fullmatch(r".+\.[A-Za-z]{3,4}", value.strip())
    )
    return isinstance(value, str) and bool(_URL.match(value) or _EMBEDDED.match(value) or is_path)


def with_references(text: str, values: Sequence[Any], folder: Path, where: str) -> tuple[str, list[dict[str, Any]]]:
    """The text of a problem with the tags of its images in place of the marks, and the references as JSON values.

    Args:
        text: with a mark for each image.
        values: the images as the row has them.
        folder: that paths are relative to, if the file is there; else the current one.
        where: the place of the row, for messages.

    Raises:
        MissingInputError: there is no such file.
        InputError: it is too large or no image, or the value names none.
    """
    references = [_reference(value, folder, where) for value in values]
    first, *rest = text.split(IMAGE_MARK)
    tags = [reference.tag for reference in references]
    placed = "".join(tag + segment for tag, segment in zip_longest(tags, rest, fillvalue=""))
    return first + placed, [reference.model_dump() for reference in references]


def _reference(value: Any, folder: Path, where: str) -> ImageReference:
    if isinstance(value, Mapping):
        value = next((value[key] for key in _KEYS if value.get(key)), None)
    if isinstance(value, str) and _URL.match(value):
        return ImageReference(source=value, sha256=_digest(value.encode()))
    try:
        if isinstance(value, bytes):
            return _kept(value)
        if isinstance(value, str) and (head := _EMBEDDED.match(value)):
            return _kept(base64.b64decode("".join(value[head.end() :].split()), validate=True))
        if not isinstance(value, str) or len(value) > _LONGEST_PATH:
            why = f"There is {quoted(value)} in its place."
            raise InputError("an image cannot be found", why=why, fix="Give a path, an http(s) URL or a data URL.")
        beside, here = folder / value, Path(value)
        path = Path(os.path.abspath(here if here.is_file() and not beside.is_file() else beside))
        digest = _digest(read_image(path, fix=f"Put it there: paths are relative to {folder}, or leave the field out."))
        source = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        return ImageReference(source=str(source), sha256=digest)
    except binascii.Error as error:
        raise InputError(f"{where}: {quoted(value)} is no base64", why=str(error)) from None
    except ScaffoldError as error:
        raise type(error)(f"{where}: {error.what}", why=error.why, fix=error.fix) from None
    except OSError as error:
        raise InputError(f"{where}: cannot read the image", why=str(error)) from None


def _kept(content: bytes) -> ImageReference:
    """The reference of an image that is in the data file itself: it is kept beside the fetched datasets."""
    _checked(content, "the image", MOST_MB, len(content))
    from engine.storage.web_rows import cache_folder  # loads httpx, which images in files of their own do not need

    digest = _digest(content)
    path = cache_folder() / "images" / digest
    if not path.is_file():
        write_file(path, content)
    return ImageReference(source=str(path), sha256=digest)


def sent_image(image: ImageReference) -> str:
    """What a request carries: the URL, or the content of the file as a data URL.

    Raises:
        MissingInputError, InputError: the file is not there, or is another one than when the run began.
    """
    if _URL.match(image.source):
        return image.source
    content = read_image(Path(image.source), fix="Put it back, or start in the folder where the row was read.")
    if _digest(content) != image.sha256:
        raise InputError(f"{image.source} has changed since its row was read", fix="Start the command again.")
    return data_url(content)


def read_image(path: Path, *, fix: str, most_mb: int = MOST_MB) -> bytes:
    """The content of an image file.

    Args:
        path: the file.
        fix: what to do if it is missing.
        most_mb: its largest size.

    Raises:
        MissingInputError: there is no such file.
        InputError: it is too large, or no PNG, JPEG, GIF or WebP file.
    """
    if not path.is_file():
        raise MissingInputError(f"No image at {path}", fix=fix)
    size = path.stat().st_size
    return _checked(path.read_bytes() if size <= most_mb * 1_000_000 else b"", str(path), most_mb, size)


def _checked(content: bytes, name: str, most_mb: int, size: int) -> bytes:
    if size > most_mb * 1_000_000:
        raise InputError(
            f"{name} has {size / 1e6:.1f} MB; at most {most_mb} MB are sent", fix="Make the images smaller."
        )
    if _type_of(content) is None:
        raise InputError(f"{name} is no PNG, JPEG, GIF or WebP image", fix="Convert it, or leave the field out.")
    return content


def data_url(content: bytes) -> str:
    """An image as ``data:image/...;base64,...``."""
    return f"data:image/{_type_of(content)};base64,{base64.b64encode(content).decode()}"


def _type_of(content: bytes) -> str | None:
    """The type of an image, by its first bytes; None if it is none that is sent."""
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "webp"
    return next((kind for start, kind in _TYPES.items() if content.startswith(start)), None)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
