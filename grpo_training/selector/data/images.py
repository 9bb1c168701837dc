"""Images of problems as data URLs, which a chat request carries."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from engine.errors import InputError, MissingInputError
from engine.records import IMAGE_MARK, Problem
from grpo_training.selector.settings import ImageSettings

_MOST_MB = 5
"""Servers limit the size of a request."""
_TYPES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}


def image_paths(settings: ImageSettings, problems: Sequence[Problem], dataset: str) -> list[Path]:
    """The image file of each problem; none without a column of images.

    Args:
        settings: the column and the folder.
        problems: of one dataset.
        dataset: named in errors.

    Raises:
        InputError: a row has no image.
    """
    paths: list[Path] = []
    column = settings.images or ""
    for number, problem in enumerate(problems if column else ()):
        name = problem.meta.get(column)
        if not isinstance(name, str) or not name:
            raise InputError(f"{dataset}, row {number} ({problem.id}): no image in {column!r}")
        paths.append(settings.images_dir / name)
    return paths


def checked_images(settings: ImageSettings, problems: Sequence[Problem], dataset: str) -> list[Path]:
    """The image file of each problem, checked before anything is paid for; none if prompts have no images.

    Raises:
        InputError: an image is missing, too large or of a type that is not sent; or a text has the mark of an image.
    """
    paths = image_paths(settings, problems, dataset)
    for path in dict.fromkeys(paths):
        data_url(path)
    for problem in problems if paths else ():
        if IMAGE_MARK in problem.text or IMAGE_MARK in problem.answer:
            raise InputError(f"{problem.id}: its text has U+FFFC, which marks the place of an image in a prompt")
    return paths


def data_url(path: Path) -> str:
    """An image file as ``data:image/...;base64,...``.

    Raises:
        MissingInputError: there is no such file.
        InputError: it is larger than 5 MB, or no PNG, JPEG, GIF or WebP file.
    """
    if not path.is_file():
        raise MissingInputError(f"No image at {path}", fix="Set --images-dir, which the paths are relative to.")
    size = path.stat().st_size
    if size > _MOST_MB * 1_000_000:
        raise InputError(
            f"{path} has {size / 1e6:.1f} MB; at most {_MOST_MB} MB are sent", fix="Make the images smaller."
        )
    content = path.read_bytes()
    kind = next((kind for start, kind in _TYPES.items() if content.startswith(start)), None)
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        kind = "webp"
    if kind is None:
        raise InputError(f"{path} is no PNG, JPEG, GIF or WebP image")
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
