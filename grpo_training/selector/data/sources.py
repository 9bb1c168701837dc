"""Embeddings that settings name, and how a checkpoint records them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import InputError
from grpo_training.selector.data.embeddings import EmbeddingTable, load_table, mean_of_normalised

if TYPE_CHECKING:
    from grpo_training.selector.settings import EmbeddingSettings


def record_of(settings: EmbeddingSettings, recorded: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Where the embeddings are, as JSON values.

    Args:
        settings: name files; without any, those of the checkpoint are used.
        recorded: what a checkpoint records.

    Raises:
        InputError: nothing names them.
    """
    if settings.embeddings is not None:
        return {"files": [str(settings.embeddings.absolute())]} | _model_of(settings.embeddings)
    if settings.img_emb is not None and settings.text_emb is not None:
        return {"files": [str(settings.img_emb.absolute()), str(settings.text_emb.absolute())]}
    if recorded and recorded.get("files"):
        return dict(recorded)
    raise InputError(
        "The embeddings are not known",
        why="No flag names them, and there is no checkpoint that records them.",
        fix="Pass --embeddings FILE, or --img-emb and --text-emb.",
    )


def _model_of(path: Path) -> dict[str, str]:
    """What made the embeddings of a file, if a file beside it tells."""
    try:
        made = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        return {"model": str(made["model"])}
    except (OSError, ValueError, KeyError, TypeError):  # embeddings of another program
        return {}


def load_embeddings(record: Mapping[str, Any]) -> EmbeddingTable:
    """The embeddings of a record; of several files the normalised mean.

    Raises:
        MissingInputError: a file is not there.
        InputError: it cannot be read.
    """
    tables = [load_table(Path(path)) for path in record["files"]]
    return tables[0] if len(tables) == 1 else mean_of_normalised(*tables)


def digest_of(record: Mapping[str, Any]) -> str:
    """Identifies the contents of the files."""
    digest = hashlib.sha256()
    for path in record["files"]:
        with Path(path).open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]
