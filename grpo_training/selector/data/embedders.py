"""Models that embed texts and images.

A model is named by a text: ``hashing`` (words, no model), ``clip:MODEL`` (hub name or folder), or
``FILE.py:NAME``, an encoder of the user's. Images are embedded by CLIP, or by an encoder that has ``embed_images``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from engine.errors import ConfigurationError, InputError, first_line
from engine.reading.plugins import load_object
from engine.storage.installation import install_command
from grpo_training.selector.data.embeddings import Array, EmbeddingTable

HASHING, CLIP = "hashing", "clip"
_HASHING_DIMENSIONS = 256
_WORD = re.compile(r"[^\W_]+")
_BATCH = 64


@runtime_checkable
class TextEmbedder(Protocol):
    """Embeds texts."""

    def embed(self, texts: Sequence[str]) -> Array:
        """L2-normalised embeddings (n, d), float32."""


@runtime_checkable
class ImageEmbedder(TextEmbedder, Protocol):
    """Embeds texts and images, such as CLIP."""

    def embed_images(self, paths: Sequence[str]) -> Array:
        """L2-normalised embeddings (n, d) of image files, float32."""


class HashingEmbedder:
    """Embeddings of the words of a text, by feature hashing: no model, the same on every machine."""

    def embed(self, texts: Sequence[str]) -> Array:
        """The sums of the signed hashes of words and of pairs of words, damped by the square root of their counts."""
        rows = np.zeros((len(texts), _HASHING_DIMENSIONS), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            words = _WORD.findall(text.casefold())
            pairs = [f"{first} {second}" for first, second in itertools.pairwise(words)]
            for token, count in Counter((*words, *pairs)).items():
                number = int.from_bytes(hashlib.blake2b(token.encode(), digest_size=8).digest(), "big")
                row[(number >> 1) % _HASHING_DIMENSIONS] += math.sqrt(count) * (1 if number & 1 else -1)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(norms > 0, norms, 1.0)


class ClipEmbedder:
    """A CLIP model of transformers: images and texts in one space.

    Args:
        model: hub name or folder.

    Raises:
        ConfigurationError: a package is not installed, or the model cannot be loaded.
    """

    def __init__(self, model: str) -> None:
        missing = [name for name in ("transformers", "PIL") if importlib.util.find_spec(name) is None]
        if missing:
            raise ConfigurationError(
                f"Not installed: {', '.join(missing)}",
                fix=f"{install_command('selector')}   (or use --embedding-model hashing)",
            )
        from transformers import AutoProcessor, CLIPModel  # an optional package, and slow to import

        folder = Path(model).expanduser()
        source = str(folder) if folder.is_dir() else model
        try:
            self._model = CLIPModel.from_pretrained(source).eval()
            self._processor = AutoProcessor.from_pretrained(source)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"Cannot load the CLIP model {model}",
                why=first_line(error),
                fix="Pass the hub name or the folder of a CLIP model, such as openai/clip-vit-base-patch32.",
            ) from error

    def embed(self, texts: Sequence[str]) -> Array:
        """L2-normalised embeddings of texts; longer ones are cut to what the model reads."""
        inputs = self._processor.tokenizer(list(texts), return_tensors="pt", padding=True, truncation=True)
        return self._normalised(self._model.get_text_features, inputs)

    def embed_images(self, paths: Sequence[str]) -> Array:
        """L2-normalised embeddings of image files.

        Raises:
            InputError: a file is no image.
        """
        batches = []
        for start in range(0, len(paths), _BATCH):
            images = [_open_image(Path(path)) for path in paths[start : start + _BATCH]]
            inputs = self._processor.image_processor(images, return_tensors="pt")
            batches.append(self._normalised(self._model.get_image_features, inputs))
        return np.concatenate(batches)

    def _normalised(self, features: Callable[..., Any], inputs: Any) -> Array:
        with torch.no_grad():
            output = features(**inputs)
        rows = getattr(output, "pooler_output", output)  # a tensor in earlier versions of transformers
        normalised: Array = torch.nn.functional.normalize(rows.float(), dim=-1).numpy()
        return normalised


def _open_image(path: Path) -> Any:
    from PIL import Image  # an optional package

    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"Cannot read the image {path}", why=f"{type(error).__name__}: {error}") from None


def open_embedder(name: str) -> TextEmbedder:
    """The embedder of a name: ``hashing``, ``clip:MODEL``, or an own one.

    An own one is ``FILE.py:NAME``: a class or function without arguments that makes an object with ``embed``, and
    ``embed_images`` if it embeds images.

    Raises:
        ConfigurationError: it cannot be used.
        InputError: an own one is not there, or embeds nothing.
    """
    if ".py:" in name:
        maker = load_object(name)
        embedder = maker() if callable(maker) else maker
        if not isinstance(embedder, TextEmbedder):
            raise InputError(f"{name} is no encoder", fix="It needs `embed(texts)` with one row per text.")
        return embedder
    kind, _, model = name.partition(":")
    if kind == CLIP and model:
        return ClipEmbedder(model)
    if name == HASHING:
        return HashingEmbedder()
    raise ConfigurationError(
        f"Unknown embedding model {name!r}", fix="Pass hashing, clip:MODEL (a hub name or folder) or FILE.py:NAME."
    )


def embedded(model: str, items: Sequence[str], *, images: bool) -> EmbeddingTable:
    """The embeddings of texts, or of image files.

    Raises:
        ConfigurationError: the model cannot be used.
        InputError: it embeds no images, or gives another number of rows.
    """
    embedder = open_embedder(model)
    if not images:
        rows = embedder.embed(items)
    elif isinstance(embedder, ImageEmbedder):
        rows = embedder.embed_images(items)
    else:
        raise InputError(
            f"{model} embeds no images",
            fix="Pass --embedding-model clip:MODEL, or an encoder of your own, FILE.py:NAME.",
        )
    table = EmbeddingTable(np.asarray(rows), model)
    if len(table) != len(items):
        raise InputError(f"{model} made {len(table)} rows of {len(items)} items")
    table.rows(range(len(items)))  # all are finite
    return table
