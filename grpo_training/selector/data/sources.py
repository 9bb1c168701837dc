"""Embeddings that settings name, and how a checkpoint records them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import InputError
from grpo_training.selector.data.embeddings import EmbeddingTable, load_table, mean_of_normalised
from grpo_training.selector.data.encoder import check_same, part_of_file, record_with_parts
from grpo_training.selector.step_settings import EmbeddingSettings


def record_of(
    settings: EmbeddingSettings, recorded: Mapping[str, Any] | None = None, checkpoint: Path | None = None
) -> dict[str, Any]:
    """Where the embeddings are and what made them, as JSON values; see :mod:`grpo_training.selector.data.encoder`.

    Args:
        settings: name files; without any, those of the checkpoint are used.
        recorded: what a checkpoint records.
        checkpoint: its file, for messages.

    Raises:
        InputError: nothing names them, or they are of another model or modality than those of the checkpoint.
    """
    found: dict[str, Any] | None = None
    if settings.embeddings is not None:
        found = record_with_parts([settings.embeddings], [part_of_file(settings.embeddings)])
    elif settings.img_emb is not None and settings.text_emb is not None:
        parts = [part_of_file(settings.img_emb, "image"), part_of_file(settings.text_emb, "text")]
        found = record_with_parts([settings.img_emb, settings.text_emb], parts)
    if found is not None:
        check_same(recorded or {}, found, str(checkpoint))
        return found
    if recorded and recorded.get("files"):
        return dict(recorded)
    raise InputError(
        "The embeddings are not known",
        why="No flag names them, and there is no checkpoint that records them.",
        fix="Pass --embeddings FILE, or --img-emb and --text-emb.",
    )


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
