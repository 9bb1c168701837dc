"""Pools: which shots can be chosen for a query."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from engine.errors import InputError
from grpo_training.selector.data.embeddings import EmbeddingTable

Sampler = Literal["rand", "text", "image", "mix"]
_NEAR = 0.5
"""Share of a mixed pool that are the nearest."""


@dataclass(frozen=True)
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

    kind: Sampler
    texts: EmbeddingTable
    images: EmbeddingTable | None
    size: int
    seed: int

    def __post_init__(self) -> None:
        if self.kind == "image" and self.images is None:
            raise InputError("--sampler image needs --images, and an --embedding-model that embeds images")

    def anchors(self, count: int) -> list[int]:
        """The queries that beams are made for, by chance."""
        rng = random.Random(self.seed)  # noqa: S311 - not for cryptography
        return sorted(rng.sample(range(len(self.texts)), min(count, len(self.texts))))

    def pool_of(self, query: int) -> list[int]:
        """The pool of a query, without itself, in the order of the ids."""
        others = [item for item in range(len(self.texts)) if item != query]
        random.Random(f"{self.seed}:{query}").shuffle(others)  # noqa: S311 - not for cryptography
        tables = [self.texts] if self.kind in ("text", "mix") else []
        tables += [self.images] if self.kind in ("image", "mix") and self.images is not None else []
        pool: dict[int, None] = {}
        for table in tables:
            [row] = table.rows([query])
            near = [item for item in table.nearest(row, sorted(others), self.size) if item not in pool]
            share = round(self.size * _NEAR / len(tables)) if self.kind == "mix" else self.size
            pool |= dict.fromkeys(near[:share])
        pool |= dict.fromkeys(others[: self.size])
        return sorted(list(pool)[: self.size])
