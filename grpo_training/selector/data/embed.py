"""Embedding the texts or the images of a dataset: ``selector embed``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.errors import InputError
from grpo_training.selector.data.embeddings import Array, ImageEmbedder, Modality, embed_once, open_embedder
from grpo_training.selector.data.images import contents_of, image_paths
from grpo_training.selector.data.items import load_items
from grpo_training.selector.settings import EmbedSettings


def embed_dataset(settings: EmbedSettings) -> int:
    """Write the embeddings of a dataset, unless they are there already. Returns the exit code.

    Raises:
        InputError: a row has no image, or the model embeds no images.
    """
    problems = load_items(settings.dataset)
    embedder = open_embedder(settings.embedding_model)
    compute: Callable[[Sequence[str]], Array]
    contents = None
    if settings.images is None:
        items, compute = [problem.text for problem in problems], embedder.embed
    else:
        if not isinstance(embedder, ImageEmbedder):
            raise InputError(
                "Images are embedded by CLIP, or by an encoder of your own",
                fix="Pass --embedding-model clip:MODEL, or FILE.py:NAME.",
            )
        paths = image_paths(problems, settings.images, settings.images_dir, settings.dataset)
        items, compute, contents = [str(path) for path in paths], embedder.embed_images, contents_of(paths)
    modality: Modality = "text" if settings.images is None else "image"
    path = embed_once(settings.output_dir, settings.embedding_model, embedder.name, items, compute, modality, contents)
    print(f"{len(items)} {'texts' if settings.images is None else 'images'}: {path}")
    return 0
