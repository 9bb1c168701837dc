"""Embeddings of texts and images: computed once, stored as .npy files, memory-mapped.

A source of embeddings is named by a text: ``hashing`` or ``hashing:512`` (words, no model), ``clip:MODEL``, the hub
name or the folder of a model of sentence-transformers, or ``FILE.py:NAME``, an encoder of the user's. Images are
embedded by CLIP, or by an encoder that has ``embed_images``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from engine.errors import ConfigurationError, InputError, MissingInputError, first_line
from engine.reading.plugins import load_object
from engine.storage.append_log import replace_file
from engine.storage.installation import install_command
from grpo_training.serve.model_folder import content_digest

Array = np.ndarray[Any, Any]
Modality = Literal["text", "image"]

HASHING, CLIP = "hashing", "clip"
_HASHING_DIMENSIONS = 256
_MOST_DIMENSIONS = 65_536
_WORD = re.compile(r"[^\W_]+")
_BATCH = 64


class EmbeddingTable:
    """Rows of a matrix of embeddings; a row's number is the id of its item.

    Args:
        matrix: (N, d); may be memory-mapped.
        place: named in errors.
    """

    def __init__(self, matrix: Any, place: str = "the embeddings") -> None:
        if matrix.ndim != 2 or not matrix.shape[1]:
            raise InputError(f"{place}: expected a matrix with one row per item, got the shape {tuple(matrix.shape)}")
        if matrix.dtype.kind not in "biuf":
            raise InputError(f"{place}: expected numbers, got {matrix.dtype}")
        self._matrix, self._place = matrix, place

    def __len__(self) -> int:
        return int(self._matrix.shape[0])

    @property
    def dimensions(self) -> int:
        """Dimensions of an embedding."""
        return int(self._matrix.shape[1])

    def rows(self, ids: Sequence[int]) -> Tensor:
        """The embeddings (n, d) of these items, as float32.

        Raises:
            InputError: an id has no row.
        """
        self.check(ids)
        rows = torch.as_tensor(np.asarray(self._matrix[list(ids)], dtype=np.float32))
        if not bool((finite := torch.isfinite(rows).all(1)).all()):
            raise InputError(
                f"{self._place}: the embedding of the item {ids[int(finite.int().argmin())]} is not finite"
            )
        return rows

    def check(self, ids: Sequence[int]) -> None:
        """Raise ``InputError`` if an item has no row."""
        wrong = [one for one in ids if not 0 <= one < len(self)]
        if wrong:
            raise InputError(
                f"{self._place}: no row for the item {wrong[0]}",
                why=f"It has {len(self)} rows, and the id of an item is the number of its row.",
                fix="Pass the embeddings of the dataset that the beam data were made from.",
            )

    def nearest(self, query: Tensor, ids: Sequence[int], count: int) -> list[int]:
        """The ``count`` items of ``ids`` whose embeddings have the highest cosine with ``query``, the nearest first."""
        if not ids:
            return []
        rows = torch.nn.functional.normalize(self.rows(ids), dim=-1)
        scores = rows @ torch.nn.functional.normalize(query, dim=-1)
        order = torch.argsort(scores, descending=True, stable=True)[:count]
        return [ids[place] for place in order.tolist()]


def load_table(path: Path) -> EmbeddingTable:
    """Embeddings of a ``.npy`` file, memory-mapped, or of a ``.pt`` file with one tensor.

    Raises:
        MissingInputError: there is no such file.
        InputError: it cannot be read, or is no matrix.
    """
    if not path.is_file():
        raise MissingInputError(
            f"Embeddings not found: {path}",
            fix="Make them with `python -m grpo_training.selector embed`, or pass --embeddings FILE.",
        )
    try:
        if path.suffix == ".npy":
            return EmbeddingTable(np.load(path, mmap_mode="r", allow_pickle=False), str(path))
        return EmbeddingTable(torch.load(path, map_location="cpu", weights_only=True).float().numpy(), str(path))
    except InputError:
        raise
    except Exception as error:  # torch and numpy raise many types for a damaged file
        raise InputError(f"Cannot read the embeddings {path}", why=f"{type(error).__name__}: {error}") from error


def mean_of_normalised(*parts: EmbeddingTable) -> EmbeddingTable:
    """The L2-normalised mean of L2-normalised embeddings of the same items, such as those of image and text."""
    ids = range(len(parts[0]))
    if {(len(one), one.dimensions) for one in parts} != {(len(parts[0]), parts[0].dimensions)}:
        raise InputError(f"The embeddings differ in shape: {', '.join(f'{len(o)} x {o.dimensions}' for o in parts)}")
    normalised = [torch.nn.functional.normalize(one.rows(list(ids)), dim=-1) for one in parts]
    mean = torch.stack(normalised).mean(0)
    return EmbeddingTable(torch.nn.functional.normalize(mean, dim=-1).numpy())


@runtime_checkable
class TextEmbedder(Protocol):
    """Embeds texts. ``name`` identifies the model and its weights."""

    name: str

    def embed(self, texts: Sequence[str]) -> Array:
        """L2-normalised embeddings (n, d), float32."""


@runtime_checkable
class ImageEmbedder(TextEmbedder, Protocol):
    """Embeds texts and images, such as CLIP."""

    def embed_images(self, paths: Sequence[str]) -> Array:
        """L2-normalised embeddings (n, d) of image files, float32."""


class HashingEmbedder:
    """Embeddings of the words of a text, by feature hashing: no model, the same on every machine.

    Args:
        dimensions: of an embedding.
    """

    def __init__(self, dimensions: int = _HASHING_DIMENSIONS) -> None:
        self.name = f"{HASHING}:{dimensions}"
        self._dimensions = dimensions

    def embed(self, texts: Sequence[str]) -> Array:
        """The sums of the signed hashes of words and of pairs of words, damped by the square root of their counts."""
        rows = np.zeros((len(texts), self._dimensions), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            words = _WORD.findall(text.casefold())
            pairs = [f"{one} {other}" for one, other in itertools.pairwise(words)]
            for token, count in Counter((*words, *pairs)).items():
                number = int.from_bytes(hashlib.blake2b(token.encode(), digest_size=8).digest(), "big")
                row[(number >> 1) % self._dimensions] += math.sqrt(count) * (1 if number & 1 else -1)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(norms > 0, norms, 1.0)


class SentenceEmbedder:
    """A model of sentence-transformers.

    Args:
        model: hub name or folder.

    Raises:
        ConfigurationError: the package is not installed, or the model cannot be loaded.
    """

    def __init__(self, model: str) -> None:
        if importlib.util.find_spec("sentence_transformers") is None:
            raise ConfigurationError(
                "sentence-transformers is not installed",
                fix=f"{install_command('selector')}   (or use --embedding-model hashing)",
            )
        from sentence_transformers import SentenceTransformer  # an optional package, and slow to import

        folder = Path(model).expanduser()
        try:
            self._model = SentenceTransformer(str(folder) if folder.is_dir() else model, device="cpu")
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"Cannot load the embedding model {model}",
                why=first_line(error),
                fix="Pass the hub name or the folder of a model of sentence-transformers, or hashing.",
            ) from error
        self.name = f"{folder.name}-{content_digest([folder])}" if folder.is_dir() else model

    def embed(self, texts: Sequence[str]) -> Array:
        """Embeddings of the texts."""
        rows = self._model.encode(list(texts), batch_size=_BATCH, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(rows, dtype=np.float32)


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
            raise ConfigurationError(f"Not installed: {', '.join(missing)}", fix=install_command("selector"))
        from transformers import AutoProcessor, CLIPModel  # an optional package, and slow to import

        folder = Path(model).expanduser()
        place = str(folder) if folder.is_dir() else model
        try:
            self._model = CLIPModel.from_pretrained(place).eval()
            self._processor = AutoProcessor.from_pretrained(place)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"Cannot load the CLIP model {model}",
                why=first_line(error),
                fix="Pass the hub name or the folder of a CLIP model, such as openai/clip-vit-base-patch32.",
            ) from error
        self.name = f"{folder.name}-{content_digest([folder])}" if folder.is_dir() else model

    def embed(self, texts: Sequence[str]) -> Array:
        """L2-normalised embeddings of texts; longer ones are cut to what the model reads."""
        inputs = self._processor.tokenizer(list(texts), return_tensors="pt", padding=True, truncation=True)
        return self._normalised(self._model.get_text_features, inputs)

    def embed_images(self, paths: Sequence[str]) -> Array:
        """L2-normalised embeddings of image files.

        Raises:
            InputError: a file is no image.
        """
        parts = []
        for start in range(0, len(paths), _BATCH):
            images = [_open_image(Path(path)) for path in paths[start : start + _BATCH]]
            inputs = self._processor.image_processor(images, return_tensors="pt")
            parts.append(self._normalised(self._model.get_image_features, inputs))
        return np.concatenate(parts)

    def _normalised(self, features: Callable[..., Any], inputs: Any) -> Array:
        with torch.no_grad():
            found = features(**inputs)
        rows = getattr(found, "pooler_output", found)  # a tensor in earlier versions of transformers
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
    """The embedder of a name: ``hashing``, ``hashing:DIMENSIONS``, ``clip:MODEL``, a hub name, a folder or an own one.

    An own one is ``FILE.py:NAME``: a class or function without arguments that makes an object with ``name`` and
    ``embed``, and ``embed_images`` if it embeds images.

    Raises:
        ConfigurationError: it cannot be used.
        InputError: an own one is not there, or embeds nothing.
    """
    if ".py:" in name:
        made = load_object(name)
        own = made() if callable(made) else made
        if not isinstance(own, TextEmbedder):
            raise InputError(f"{name} is no encoder", fix="It needs `name`, and `embed(texts)` with one row per text.")
        return own
    kind, _, size = name.partition(":")
    if kind == CLIP and size:
        return ClipEmbedder(size)
    if kind != HASHING:
        return SentenceEmbedder(name)
    if size and not (size.isdecimal() and 0 < int(size) <= _MOST_DIMENSIONS):
        raise ConfigurationError(f"{name}: the dimensions must be a positive number up to {_MOST_DIMENSIONS:,}")
    return HashingEmbedder(int(size or _HASHING_DIMENSIONS))


def embed_once(
    folder: Path,
    source: str,
    name: str,
    items: Sequence[str],
    compute: Callable[[Sequence[str]], Array],
    modality: Modality = "text",
    contents: Sequence[str] | None = None,
) -> Path:
    """Compute the embeddings of items, unless the folder has them already; the path of the ``.npy`` file.

    Args:
        folder: where files are kept, one for each embedder and list of items.
        source: what the embedder is made from.
        name: identifies the embedder and its weights.
        items: texts, or paths of images.
        compute: embeds a part of the items; called with at most 1,024 at a time.
        modality: of the items.
        contents: identifies what the items hold, for paths; None: the items themselves.
    """
    key = hashlib.sha256(json.dumps([name, list(contents or items)], ensure_ascii=True).encode()).hexdigest()[:16]
    path = folder / f"embeddings-{key}.npy"
    if path.is_file() and path.with_suffix(".json").is_file():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    parts = [np.asarray(compute(items[start : start + 1024])) for start in range(0, len(items), 1024)]
    table = EmbeddingTable(np.concatenate(parts), source)
    if len(table) != len(items):
        raise InputError(f"{source} made {len(table)} rows of {len(items)} items")
    write_embeddings(path, table.rows(range(len(items))).numpy(), source, name, modality)
    return path


def write_embeddings(path: Path, rows: Array, source: str, name: str, modality: Modality = "text") -> None:
    """Write embeddings as a ``.npy`` file, and beside it a JSON file that tells how they were made.

    Args:
        path: the ``.npy`` file.
        rows: (N, d).
        source: what :func:`open_embedder` makes the embedder from.
        name: identifies the embedder and its weights.
        modality: of the items.
    """
    buffer = io.BytesIO()
    np.save(buffer, rows.astype(np.float32), allow_pickle=False)
    place = Path(source).expanduser()
    is_path = place.is_dir() or ".py:" in source
    record = {
        "model": str(place.absolute()) if is_path else source,
        "name": name,
        "modality": modality,
        "items": rows.shape[0],
        "dimensions": rows.shape[1],
    }
    replace_file(path.with_suffix(".json"), json.dumps(record, indent=2).encode() + b"\n")
    replace_file(path, buffer.getvalue())
