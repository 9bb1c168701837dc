"""Pools: which shots can be chosen for a query."""

from __future__ import annotations

import random
from typing import Literal

from engine.errors import InputError
from grpo_training.selector.data.embeddings import EmbeddingTable

Sampler = Literal["rand", "text", "image", "mix"]
_NEAR = 0.5
"""Share of a mixed pool that are the nearest."""


class PoolSampler:
    """Draws pools from a dataset, the same for the same seed.

    Args:
        kind: ``rand``: by chance; ``text``, ``image``: the nearest; ``mix``: half by chance, a quarter each of the
            nearest by text and by image (without image embeddings, a half by text).
        texts, images: embeddings of the texts, and of the images.
        size: shots of a pool.
        seed: of the draws.

    Raises:
        InputError: ``image`` without embeddings of images.
    """

    def __init__(
        self, kind: Sampler, texts: EmbeddingTable, images: EmbeddingTable | None, size: int, seed: int
    ) -> None:
        if kind == "image" and images is None:
            raise InputError("--sampler image needs --images, and an --embedding-model that embeds images")
        self._kind, self._size, self._seed = kind, size, seed
        self._texts, self._images = texts, images

    def anchors(self, count: int) -> list[int]:
        """The queries that beams are made for, by chance."""
        rng = random.Random(self._seed)  # noqa: S311 - not for cryptography
        return sorted(rng.sample(range(len(self._texts)), min(count, len(self._texts))))

    def pool_of(self, query: int) -> list[int]:
        """The pool of a query, without itself, in the order of the ids."""
        others = [item for item in range(len(self._texts)) if item != query]
        random.Random(f"{self._seed}:{query}").shuffle(others)  # noqa: S311 - not for cryptography
        if self._kind == "rand":
            return sorted(others[: self._size])
        if self._kind == "text":
            return sorted(self._nearest(self._texts, query, self._size))
        if self._kind == "image" and self._images is not None:
            return sorted(self._nearest(self._images, query, self._size))
        tables = [self._texts] if self._images is None else [self._texts, self._images]
        pool: dict[int, None] = {}
        for table in tables:
            share = round(self._size * _NEAR / len(tables))
            near = (item for item in self._nearest(table, query, self._size) if item not in pool)
            pool |= dict.fromkeys([item for item, _ in zip(near, range(share), strict=False)])
        pool |= dict.fromkeys(others[: self._size])
        return sorted(list(pool)[: self._size])

    def _nearest(self, table: EmbeddingTable, query: int, count: int) -> list[int]:
        [row] = table.rows([query])
        return table.nearest(row, [item for item in range(len(table)) if item != query], count)
