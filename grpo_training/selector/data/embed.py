"""Embedding the texts or the images of a dataset: ``selector embed``."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from engine.storage.append_log import write_file
from grpo_training.selector.data.embedders import embedded
from grpo_training.selector.data.embeddings import EmbeddingTable
from grpo_training.selector.data.images import image_paths
from grpo_training.selector.data.items import load_items
from grpo_training.selector.settings import EmbedSettings

FILES = {"text": "embeddings.npy", "image": "image_embeddings.npy"}
"""Modality -> name of the file."""


def embed_dataset(settings: EmbedSettings) -> int:
    """Write the embeddings of the texts of a dataset, or of its images. Returns the exit code.

    Raises:
        InputError: a row has no image, or the model embeds no images.
    """
    problems = load_items(settings.dataset)
    modality, items = "text", [problem.text for problem in problems]
    if settings.images is not None:
        modality, items = "image", [str(path) for path in image_paths(settings, problems, settings.dataset)]
    embed_items(settings.embedding_model, items, modality, settings.output_dir)
    print(f"{len(items)} {modality}s: {settings.output_dir / FILES[modality]}")
    return 0


def embed_items(model: str, items: Sequence[str], modality: str, folder: Path) -> EmbeddingTable:
    """Embed texts, or image files; write the file of the modality into a folder, and JSON that tells how beside it.

    Args:
        model: what :func:`grpo_training.selector.data.embedders.open_embedder` makes the embedder from.
        items: texts, or paths of image files.
        modality: of the items, ``text`` or ``image``.
        folder: is made.
    """
    table = embedded(model, items, images=modality == "image")
    buffer, source = io.BytesIO(), Path(model).expanduser()
    np.save(buffer, table.rows(range(len(items))).numpy(), allow_pickle=False)
    record = {
        "model": str(source.absolute()) if source.is_dir() or ".py:" in model else model,
        "modality": modality,
        "items": len(items),
        "dimensions": table.dimensions,
    }
    path = folder / FILES[modality]
    write_file(path.with_suffix(".json"), json.dumps(record, indent=2).encode() + b"\n")
    write_file(path, buffer.getvalue())
    return table
