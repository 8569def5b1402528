"""Approximate search by faiss for the nearest of many directions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, row_blocks
from typica.extras import need

INDEXES = ("hnsw", "ivf")
LEAST_ROWS = 39  # of each cell that faiss needs to find the cells

# HNSW: links of a direction, and how many candidates are kept while it is put in and searched for.
_LINKS = 32
_BUILD = 100
_LOOK = 128
# IVF: cells that are searched, of 4 sqrt(C).
_PROBES = 64


class DirectionIndex:
    """Finds the two nearest of many directions (C, m) of length 1, C >= 2.

    kind: "hnsw", a graph of neighbours, or "ivf", cells of which the nearest are searched. Each
    keeps the directions in float32.
    """

    def __init__(self, directions: NDArray[np.float64], kind: str) -> None:
        faiss = need("faiss", "faiss")
        n, m = directions.shape
        if kind == "hnsw":
            self._index = faiss.IndexHNSWFlat(m, _LINKS)
            self._index.hnsw.efConstruction = _BUILD
            self._index.hnsw.efSearch = _LOOK
        else:
            cells = max(1, min(round(4 * n**0.5), n // LEAST_ROWS))
            self._index = faiss.IndexIVFFlat(faiss.IndexFlatL2(m), m, cells)
            self._index.nprobe = min(_PROBES, cells)
            self._index.train(directions.astype(np.float32))
        for block in row_blocks(n, m, itemsize=4):
            self._index.add(directions[block].astype(np.float32))

    def nearest_two(self, U: AnyArray) -> NDArray[np.int64]:
        """Return the places (n, 2) of the two nearest to each row of U (n, m), -1 for none."""
        _, found = self._index.search(np.ascontiguousarray(U, dtype=np.float32), 2)
        places: NDArray[np.int64] = found
        return places
