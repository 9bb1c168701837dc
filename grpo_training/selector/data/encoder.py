"""How items were embedded, as files and checkpoints record it, and embedding other items in the same way.

A record is a JSON object: ``files`` are the matrices, and ``parts`` tells of each which model embedded which modality
(``text`` or ``image``). Of two parts the normalised mean is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from engine.errors import InputError
from engine.records import Problem
from grpo_training.selector.data.embeddings import (
    EmbeddingTable,
    ImageEmbedder,
    Modality,
    TextEmbedder,
    mean_of_normalised,
    open_embedder,
)


@dataclass(frozen=True)
class EmbeddingPart:
    """What embedded items.

    Args:
        modality: of the items; None: not known.
        model: what :func:`open_embedder` makes the embedder from; empty: not known.
        name: identifies the model and its weights; empty: not known.
    """

    modality: Modality | None = None
    model: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.modality or 'texts or images'} by {self.model or 'an unknown model'}"

    def differs(self, other: EmbeddingPart) -> bool:
        """Whether both are known to be of different modalities or weights."""
        pairs = ((self.modality, other.modality), (self.name, other.name))
        return any(one and two and one != two for one, two in pairs)


def part_of_file(path: Path, modality: Modality | None = None) -> EmbeddingPart:
    """What made the embeddings of a file, by the JSON file beside it.

    Args:
        path: the matrix.
        modality: that the file has to be of; None: any.

    Raises:
        InputError: the file is of another modality.
    """
    try:
        made = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        found = _part(made)
    except (OSError, ValueError, TypeError):  # embeddings of another program
        found = EmbeddingPart()
    if modality is None or found.modality == modality:
        return found
    if found.modality is not None:
        raise InputError(
            f"{path} has embeddings of {found.modality}, not of {modality}",
            why=f"{path.with_suffix('.json').name} says so: {found}.",
            fix="Pass --img-emb for the images and --text-emb for the texts.",
        )
    return EmbeddingPart(modality, found.model, found.name)


def parts_of(record: Mapping[str, Any]) -> list[EmbeddingPart]:
    """The parts of a record."""
    return [_part(one) for one in record.get("parts", ())]


def _part(made: object) -> EmbeddingPart:
    if not isinstance(made, Mapping):  # a file or a checkpoint of another program
        return EmbeddingPart()
    modality = made.get("modality")
    known: Modality | None = modality if modality in get_args(Modality) else None
    return EmbeddingPart(known, str(made.get("model") or ""), str(made.get("name") or ""))


def check_same(trained: Mapping[str, Any], given: Mapping[str, Any], place: str) -> None:
    """Raise ``InputError`` if embeddings are of another model or modality than those of a checkpoint.

    Args:
        trained: the record of the checkpoint.
        given: the record of the embeddings.
        place: the checkpoint, for the message.
    """
    before, now = parts_of(trained), parts_of(given)
    if not before or not now:
        return
    if len(before) != len(now) or any(one.differs(other) for one, other in zip(before, now, strict=True)):
        raise InputError(
            f"{place} was trained on other embeddings",
            why=f"It was trained on {_shown(before)}; these are {_shown(now)}.",
            fix="Pass embeddings of the same model and modality.",
        )


def record_with_parts(files: Sequence[Path], parts: Sequence[EmbeddingPart]) -> dict[str, Any]:
    """The record of matrices."""
    return {"files": [str(path.absolute()) for path in files], "parts": [asdict(part) for part in parts]}


class ItemEncoder:
    """Embeds problems as the embeddings of a record were made.

    Args:
        record: of a checkpoint.
        place: the checkpoint, for messages.
        has_images: whether the problems come with images.
        model: what embeds parts whose model the record does not tell.

    Raises:
        InputError: the record does not tell the model or the modality, images are missing, the model embeds no images,
            or its weights are others.
    """

    def __init__(self, record: Mapping[str, Any], place: str, *, has_images: bool, model: str | None = None) -> None:
        self._parts: list[tuple[EmbeddingPart, TextEmbedder]] = []
        parts = parts_of(record) or [EmbeddingPart()]
        for part in parts:
            source = part.model or model
            if not source:
                raise InputError(
                    f"{place} does not tell which model embeds {part.modality or 'text'}s",
                    why="It was trained on files that nothing beside them describes.",
                    fix="Pass --embedding-model, or train on files of `python -m grpo_training.selector embed`.",
                )
            if part.modality is None:
                raise InputError(
                    f"{place} does not tell whether {source} embedded texts or images",
                    fix="Make the embeddings again with `python -m grpo_training.selector embed`, and train on them.",
                )
            if part.modality == "image" and not has_images:
                raise InputError(
                    f"{place} was trained on embeddings of images",
                    why="Without images a query cannot be embedded as in its training.",
                    fix="Pass --images COLUMN, which names the images of the rows.",
                )
            embedder = open_embedder(source)
            if part.name and embedder.name != part.name:
                raise InputError(
                    f"{source} has other weights than the model that {place} was trained with",
                    why=f"It is {embedder.name}; the embeddings are by {part.name}.",
                    fix="Use the same model, or embed and train again.",
                )
            if part.modality == "image" and not isinstance(embedder, ImageEmbedder):
                raise InputError(f"{source} embeds no images", why=f"{place} was trained on {_shown(parts)}.")
            self._parts.append((part, embedder))

    def table(self, problems: Sequence[Problem], images: Sequence[Path]) -> EmbeddingTable:
        """The embeddings of problems.

        Args:
            problems: in the order of the rows.
            images: file of each; empty if no part is of images.
        """
        tables = []
        for part, embedder in self._parts:
            if part.modality == "image" and isinstance(embedder, ImageEmbedder):
                rows = embedder.embed_images([str(path) for path in images])
            else:
                rows = embedder.embed([problem.text for problem in problems])
            tables.append(EmbeddingTable(rows))
        return tables[0] if len(tables) == 1 else mean_of_normalised(*tables)


def _shown(parts: Sequence[EmbeddingPart]) -> str:
    return " and ".join(map(str, parts))
