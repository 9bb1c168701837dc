"""A hidden utility of query and shots: data with a known truth, in place of a model that is asked.

The utility of an ordered pair of shots has parts that the similarity of embeddings does not show: a relevance that is a
hidden bilinear form, a quality of each shot, a loss for shots that say the same, and a gain for shots that complement
each other. What a training sees of it is noisy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from grpo_training.selector.data.embeddings import Array

_RELEVANCE, _QUALITY, _REDUNDANCY, _COMPLEMENT, _FIRST = 1.0, 0.5, 0.6, 0.6, 0.15
"""Weights of the parts; ``_FIRST`` is what the first place counts more than the second."""


@dataclass(frozen=True)
class SyntheticUtility:
    """Queries, shots, pools, and the utility of every pair of shots.

    Args:
        queries: (Q, d), unit vectors.
        shots: (M, d), unit vectors.
        pools: (Q, K), the shots of each query's pool.
        relevance: (d, d), the hidden bilinear form; on average it agrees with similarity only in part.
        quality: (d,), the hidden direction of good shots.
        complement: (d, d), the hidden form of pairs that complement each other.
        noise: standard deviation of a measurement of a pair.
    """

    queries: Array
    shots: Array
    pools: Array
    relevance: Array
    quality: Array
    complement: Array
    noise: float

    @classmethod
    def make(
        cls, seed: int, queries: int, *, shots: int = 1000, pool: int = 64, dimensions: int = 32, noise: float = 0.15
    ) -> SyntheticUtility:
        """Draw an instance. A pool is a half by chance and a half the most similar shots."""
        rng = np.random.default_rng(seed)
        topics = _unit(rng.normal(size=(20, dimensions)))
        drawn_queries = _unit(
            topics[rng.integers(20, size=queries)] + 0.7 * _unit(rng.normal(size=(queries, dimensions)))
        )
        drawn_shots = _unit(topics[rng.integers(20, size=shots)] + 0.7 * _unit(rng.normal(size=(shots, dimensions))))
        rotation = np.linalg.qr(rng.normal(size=(dimensions, dimensions)))[0]
        similar = np.argsort(-drawn_queries @ drawn_shots.T, axis=1)
        pools = np.empty((queries, pool), dtype=np.int64)
        for row in range(queries):
            near = similar[row, : pool // 2]
            far = rng.choice(similar[row, pool // 2 :], size=pool - pool // 2, replace=False)
            pools[row] = np.sort(np.concatenate([near, far]))
        return cls(
            queries=drawn_queries,
            shots=drawn_shots,
            pools=pools,
            relevance=0.6 * np.eye(dimensions) + 0.6 * rotation,
            quality=rng.normal(size=dimensions) / 2,
            complement=np.linalg.qr(rng.normal(size=(dimensions, dimensions)))[0],
            noise=noise,
        )

    def single(self, query: int) -> Array:
        """(K,): the utility of each shot of the pool alone."""
        rows = self.shots[self.pools[query]]
        alone: Array = _RELEVANCE * rows @ (self.relevance.T @ self.queries[query]) + _QUALITY * rows @ self.quality
        return alone

    def pairs(self, query: int) -> Array:
        """(K, K): the utility of each ordered pair of different shots of the pool; -inf on the diagonal."""
        rows = self.shots[self.pools[query]]
        alone = self.single(query)
        same = np.maximum(rows @ rows.T, 0.0)
        together = rows @ self.complement @ rows.T
        utility: Array = (1 + _FIRST) * alone[:, None] + (1 - _FIRST) * alone[None, :]
        utility = utility - _REDUNDANCY * same + _COMPLEMENT * (together + together.T) / 2
        np.fill_diagonal(utility, -np.inf)
        return utility

    def similarity(self, query: int) -> Array:
        """(K,): the cosine of each shot of the pool with the query."""
        cosines: Array = self.shots[self.pools[query]] @ self.queries[query]
        return cosines

    def beams(self, query: int, rng: np.random.Generator, size: int = 5) -> list[tuple[tuple[int, int], float]]:
        """Places of the best pairs with their scores, as a beam search over noisy gains finds them, the best first.

        As in beam files, a beam is scored by the gain of its last shot, and the beams of the first step are ranked by
        theirs.
        """
        noise = self.noise / np.sqrt(2)
        alone = self.single(query)
        first = alone + rng.normal(scale=noise, size=len(alone))
        found = []
        for one in np.argsort(-first)[:size]:
            gain = self.pairs(query)[one] - alone[one] + rng.normal(scale=noise, size=len(alone))
            found += [((int(one), int(other)), float(gain[other])) for other in np.argsort(-gain)[:size]]
        return sorted(found, key=lambda beam: -beam[1])[:size]

    def measured(self, query: int, places: Sequence[int], rng: np.random.Generator) -> float:
        """One noisy measurement of a pair."""
        return float(self.pairs(query)[places[0], places[1]] + rng.normal(scale=self.noise))


def _unit(rows: Array) -> Array:
    unit: Array = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return unit
