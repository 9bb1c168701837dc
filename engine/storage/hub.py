"""Rows of datasets on the Hugging Face hub, through the package ``datasets``."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import InputError, MissingInputError
from engine.records import IMAGE_COLUMN
from engine.storage.data_files import SUFFIXES
from engine.storage.installation import install_command
from engine.storage.parquet_rows import ClassNames, class_names, plain_row

_NAME = re.compile(
    r"(?P<repository>[\w][\w.-]*/[\w][\w.-]*)(?::(?P<split>[\w\[\]:%+-]+))?(?:\?config=(?P<config>[\w.-]+))?"
)
_USUAL_CONFIGS = ("default", "main")
_REACHABLE_S = 10.0
_MEDIA = ("Image", "Audio", "Video", "Pdf", "Nifti")
"""Features whose values are files: they would be decoded by further packages, and are left out."""


class HubName(NamedTuple):
    """``owner/name``, ``owner/name:split`` or ``owner/name:split?config=NAME``."""

    repository: str
    split: str | None
    config: str | None


def hub_name(name: str) -> HubName | None:
    """The parts of a name of a dataset on the hub. None for any other text, and for a path that exists."""
    match = _NAME.fullmatch(name)
    if match is None or name.partition("?")[0].endswith(SUFFIXES) or Path(name).exists():
        return None
    return HubName(match["repository"], match["split"], match["config"])


def is_offline() -> bool:
    """Whether the environment forbids the hub (``HF_HUB_OFFLINE``)."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def load_from_hub(
    arguments: Iterable[str], options: Mapping[str, Any], what: str, fix: str = "", repository: str = ""
) -> Iterable[Any]:
    """The rows that ``datasets.load_dataset`` returns.

    Args:
        arguments: positional arguments; the first is ``owner/name``, or a format with the files among the options.
        options: keyword arguments.
        what: the first line of the error, if the hub does not provide the rows.
        fix: what to do then.
        repository: names the dataset in the error; by default the first argument.

    Raises:
        MissingInputError: ``datasets`` is not installed, or it raised.
    """
    with _hub(repository or next(iter(arguments)), what, fix) as datasets:
        rows: Iterable[Any] = datasets.load_dataset(*arguments, **options)
        return rows


@contextlib.contextmanager
def _hub(repository: str, what: str, fix: str) -> Iterator[Any]:
    """The package ``datasets``. What it raises becomes a ``MissingInputError``; an ``InputError`` stays one."""
    try:
        import datasets  # optional, and slow to import
    except ImportError as error:
        why = f"It could come from the Hugging Face hub ({repository}), but `datasets` is not installed."
        install = install_command("datasets")
        raise MissingInputError(what, why=why, fix=f"{fix} Or: {install}" if fix else install) from error
    unreachable = _use_the_cache_if_offline()
    try:
        yield datasets
    except InputError:
        raise
    except Exception as error:  # the package raises its own errors, the hub's and the HTTP client's
        raise MissingInputError(what, why=_why(repository, unreachable or error), fix=fix) from error


def rows_of_hub(name: HubName, *, images: bool = False) -> tuple[str, Iterable[Any], ClassNames]:
    """The source of a dataset, for messages, its rows with the values that JSON has, and the names of its classes.

    Without a configuration the only one is read, or ``default`` or ``main``; without a split the only one, or
    ``train``.

    Args:
        name: of the dataset.
        images: whether the rows keep the bytes of images, as they are stored.

    Raises:
        MissingInputError: as :func:`load_from_hub`.
        InputError: there are several splits or configurations, and none of the usual ones.
    """
    what = f"Dataset {name.repository} is not available"
    fix = "Check the name and the connection, or download its file and give the path (x.jsonl, x.csv, x.parquet)."
    with _hub(name.repository, what, fix) as hub:
        config = name.config or _chosen(name, "config", hub.get_dataset_config_names(name.repository), _USUAL_CONFIGS)
        split = name.split or _chosen(name, "split", hub.get_dataset_split_names(name.repository, config), ("train",))
        rows = hub.load_dataset(name.repository, config, split=split)
    features: Mapping[str, Any] = rows.features.to_dict() if getattr(rows, "features", None) else {}
    media = [column for column, feature in features.items() if feature.get("_type") in _MEDIA]
    shown = [key for key in media if images and IMAGE_COLUMN.fullmatch(key) and features[key]["_type"] == "Image"]
    for column in shown:
        rows = rows.cast_column(column, replace(rows.features[column], decode=False))
        media.remove(column)
    if media:
        rows = rows.remove_columns(media)
    plain = (plain_row(row, images=images) if isinstance(row, Mapping) else row for row in rows)
    return f"{name.repository}:{split} (Hugging Face hub)", plain, class_names(features)


def _chosen(name: HubName, kind: str, known: list[str], usual: Iterable[str]) -> str:
    if len(known) == 1:
        return known[0]
    chosen = next((choice for choice in usual if choice in known), None)
    if chosen is None:
        example = f"{name.repository}:{known[0]}" if kind == "split" else f"{name.repository}?config={known[0]}"
        raise InputError(
            f"Which {kind} of {name.repository} is meant?",
            why=f"It has: {', '.join(known[:30])}.",
            fix=f"Name one, such as --dataset '{example}'.",
        )
    return chosen


def _use_the_cache_if_offline() -> Exception | None:
    """Ask the hub once; if it cannot be reached, make ``datasets`` use its cache only: it would retry for 20 seconds.

    Returns:
        why the hub cannot be reached; None if it can.
    """
    import datasets
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    if constants.HF_HUB_OFFLINE:
        return None
    try:
        get_session().head(constants.ENDPOINT, timeout=_REACHABLE_S)
    except Exception as error:  # noqa: BLE001 - of its HTTP client, which differs between versions
        constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
        return error
    return None


def _why(repository: str, error: Exception) -> str:
    reason = str(error).strip().splitlines() or [""]
    return f"The Hugging Face hub did not provide {repository}: {type(error).__name__}: {reason[0][:300]}"
