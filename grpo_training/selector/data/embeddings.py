"""Matrices of embeddings: ``.npy`` files, memory-mapped; a row's number is the id of its item."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.errors import InputError, MissingInputError

Array = np.ndarray[Any, Any]


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
        wrong = [item for item in ids if not 0 <= item < len(self)]
        if wrong:
            raise InputError(
                f"{self._place}: no row for the item {wrong[0]}",
                why=f"It has {len(self)} rows, and the id of an item is the number of its row.",
                fix="Pass the embeddings of the dataset that the beam data were made from.",
            )

    def nearest(self, query: Tensor, ids: Sequence[int], count: int) -> list[int]:
        """The ``count`` items of ``ids`` whose embeddings have the highest cosine with ``query``, the nearest first."""
        rows = torch.nn.functional.normalize(self.rows(ids), dim=-1)
        scores = rows @ torch.nn.functional.normalize(query, dim=-1)
        order = torch.argsort(scores, descending=True, stable=True)[:count]
        return [ids[index] for index in order.tolist()]


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


def mean_of_normalised(*tables: EmbeddingTable) -> EmbeddingTable:
    """The L2-normalised mean of L2-normalised embeddings of the same items, such as image and text; one as it is."""
    if len(tables) == 1:
        return tables[0]
    ids = range(len(tables[0]))
    if {(len(table), table.dimensions) for table in tables} != {(len(tables[0]), tables[0].dimensions)}:
        raise InputError(
            f"The embeddings differ in shape: {', '.join(f'{len(table)} x {table.dimensions}' for table in tables)}"
        )
    normalised = [torch.nn.functional.normalize(table.rows(list(ids)), dim=-1) for table in tables]
    mean = torch.stack(normalised).mean(0)
    return EmbeddingTable(torch.nn.functional.normalize(mean, dim=-1).numpy())
