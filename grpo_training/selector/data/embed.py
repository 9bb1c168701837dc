"""Embedding the texts or the images of a dataset: ``selector embed``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grpo_training.selector.data.embedders import embedded
from grpo_training.selector.data.embeddings import EmbeddingTable, write_embeddings
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
        paths = image_paths(problems, settings.images, settings.images_dir, settings.dataset)
        modality, items = "image", [str(path) for path in paths]
    embed_items(settings.embedding_model, items, modality, settings.output_dir)
    print(f"{len(items)} {modality}s: {settings.output_dir / FILES[modality]}")
    return 0


def embed_items(model: str, items: Sequence[str], modality: str, folder: Path) -> EmbeddingTable:
    """Embed texts, or image files, and write the file of the modality into a folder."""
    table = embedded(model, items, images=modality == "image")
    write_embeddings(folder / FILES[modality], table.rows(range(len(items))).numpy(), model, modality)
    return table
