"""Images of problems as data URLs, which a chat request carries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.errors import InputError
from engine.records import IMAGE_MARK, Problem
from engine.storage import images as storage
from grpo_training.selector.settings import ImageSettings

_MOST_MB = 5
"""Servers limit the size of a request."""


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
    fix = "Set --images-dir, which the paths are relative to."
    return storage.data_url(storage.read_image(path, fix=fix, most_mb=_MOST_MB))
