"""Embeddings that settings name, how a checkpoint records them, and embedding other items in the same way.

A record is a JSON object: ``files`` are the matrices, and ``parts`` tells of each which model embedded which modality
(``text`` or ``image``). Of two parts the normalised mean is used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.records import Problem
from grpo_training.selector.data.embedders import embedded
from grpo_training.selector.data.embeddings import EmbeddingTable, load_table, mean_of_normalised
from grpo_training.selector.settings import EmbeddingSettings


def record_of(
    settings: EmbeddingSettings, recorded: Mapping[str, Any] | None = None, checkpoint: Path | None = None
) -> dict[str, Any]:
    """Where the embeddings are and what made them, as JSON values.

    Args:
        settings: name files; without any, those of the checkpoint are used.
        recorded: what a checkpoint records.
        checkpoint: its file, for messages.

    Raises:
        InputError: nothing names them, or they are of another modality than the flag says or the checkpoint records.
    """
    named = {settings.embeddings: None, settings.img_emb: "image", settings.text_emb: "text"}
    files = [(path, modality) for path, modality in named.items() if path is not None]
    if not files and recorded and recorded.get("files"):
        return dict(recorded)
    if not files:
        raise InputError(
            "The embeddings are not known",
            why="No flag names them, and there is no checkpoint that records them.",
            fix="Pass --embeddings FILE, or --img-emb and --text-emb.",
        )
    parts = [_made(path, modality) for path, modality in files]
    before = [part["modality"] for part in (recorded or {}).get("parts", ())]
    now = [part["modality"] for part in parts]
    if before and None not in (*before, *now) and before != now:
        raise InputError(
            f"{checkpoint} was trained on other embeddings",
            why=f"It was trained on those of: {', '.join(before)}; these are of: {', '.join(map(str, now))}.",
            fix="Pass embeddings of the same model and modality.",
        )
    return {"files": [str(path.absolute()) for path, _ in files], "parts": parts}


def _made(path: Path, modality: str | None) -> dict[str, str | None]:
    """What made the embeddings of a file, by the JSON file beside it; None for what it does not tell.

    Args:
        path: the matrix.
        modality: of the items, if nothing beside the file tells it.
    """
    try:
        record = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        facts = {name: record.get(name) for name in ("modality", "model")}
    except (OSError, ValueError, AttributeError):  # embeddings of another program
        facts = {"modality": None, "model": None}
    return facts | {"modality": facts["modality"] or modality}


def load_embeddings(record: Mapping[str, Any]) -> EmbeddingTable:
    """The embeddings of a record; of several files the normalised mean.

    Raises:
        MissingInputError: a file is not there.
        InputError: it cannot be read.
    """
    return mean_of_normalised(*(load_table(Path(path)) for path in record["files"]))


def embed_as(
    record: Mapping[str, Any], checkpoint: str, problems: Sequence[Problem], images: Sequence[Path]
) -> EmbeddingTable:
    """Embed problems as the embeddings of a record were made.

    Args:
        record: of a checkpoint.
        checkpoint: its file, for messages.
        problems: in the order of the rows.
        images: file of each; empty if the problems come without images.

    Raises:
        InputError: the record does not tell the model or the modality, images are missing, or the model embeds none.
    """
    tables = []
    for part in record.get("parts") or [{}]:
        source, modality = part.get("model"), part.get("modality")
        if not source or not modality:
            raise InputError(
                f"{checkpoint} does not tell which model embeds {modality or 'text'}s",
                why="It was trained on files that nothing beside them describes.",
                fix="Train on files of `python -m grpo_training.selector embed`.",
            )
        if modality == "image" and not images:
            raise InputError(
                f"{checkpoint} was trained on embeddings of images",
                why="Without images a query cannot be embedded as in its training.",
                fix="Pass --images COLUMN, which names the images of the rows.",
            )
        is_image = modality == "image"
        items = [str(path) for path in images] if is_image else [problem.text for problem in problems]
        tables.append(embedded(source, items, images=is_image))
    return mean_of_normalised(*tables)


def digest_of(record: Mapping[str, Any]) -> str:
    """Identifies the contents of the files."""
    digest = hashlib.sha256()
    for path in record["files"]:
        with Path(path).open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]
