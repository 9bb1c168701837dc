"""Embedding the texts or the images of a dataset: ``selector embed``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.datasets import load_problems
from engine.errors import InputError
from grpo_training.selector.data.embeddings import Array, ClipEmbedder, embed_once, open_embedder
from grpo_training.selector.data.images import image_paths

if TYPE_CHECKING:
    from grpo_training.selector.settings import EmbedSettings


def embed_dataset(settings: EmbedSettings) -> int:
    """Write the embeddings of a dataset, unless they are there already. Returns the exit code.

    Raises:
        InputError: a row has no image, or the model embeds no images.
    """
    problems = load_problems(settings.dataset)
    embedder = open_embedder(settings.embedding_model)
    compute: Callable[[Sequence[str]], Array]
    if settings.images is None:
        items, compute = [problem.text for problem in problems], embedder.embed
    else:
        if not isinstance(embedder, ClipEmbedder):
            raise InputError("Images are embedded by CLIP", fix="Pass --embedding-model clip:MODEL.")
        paths = image_paths(problems, settings.images, settings.images_dir, settings.dataset)
        items, compute = [str(path) for path in paths], embedder.embed_images
    path = embed_once(settings.output_dir, settings.embedding_model, embedder.name, items, compute)
    print(f"{len(items)} {'texts' if settings.images is None else 'images'}: {path}")
    return 0
