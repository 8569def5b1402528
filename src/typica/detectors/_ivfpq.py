"""Rows as codes of a few bytes: cells, and product quantisation of what lies between (IVF-PQ).

A row is coded as the number of its nearest cell and, for each part of its difference from that
cell's centre, the number of the nearest of 256 known parts (Jegou, Douze, Schmid: Product
Quantization for Nearest Neighbor Search, 2011). Distances are measured from a query itself to what
the codes stand for. faiss does the work; what is kept are plain arrays.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Rows
from typica.detectors._index import LEAST_ROWS
from typica.errors import FormatError, InputError
from typica.extras import need
from typica.store import State, storable

INDEX = "ivfpq"
PARTS = 32  # bytes of a row's code, beside the number of its cell
CODES = 256  # known parts: those of a byte
PROBES = 16  # cells that are searched, at the least
_SAMPLE = 64  # training rows of each cell, or code, that is to be found

Codes = NDArray[np.uint8]


@storable("quantiser")
class Quantiser:
    """Cells and known parts, by which rows of m features are coded.

    centres: (cells, w), of w >= m features, the rest zero; codebooks: (parts, 256, w / parts).
    """

    def __init__(self, centres: Any, codebooks: Any, n_features: int) -> None:
        self.centres = _checked(centres, 2)
        self.codebooks = _checked(codebooks, 3)
        self.n_features = int(n_features)
        parts, codes, width = self.codebooks.shape
        wide = self.centres.shape[1]
        if codes != CODES or parts * width != wide or not 0 < self.n_features <= wide:
            raise FormatError("the parts of a quantiser do not fit each other; fit again.")

    @classmethod
    def trained(cls, rows: Rows, n: int, seed: int) -> Self:
        """Learn cells and parts from rows (k, m) of length 1, for n rows in all."""
        faiss = need("faiss", "faiss")
        m = rows.shape[1]
        parts = min(PARTS, m)
        width = -(-m // parts) * parts
        cells = max(1, min(round(n**0.5), len(rows) // LEAST_ROWS))
        if len(rows) < CODES:
            raise InputError(
                f"index={INDEX!r} needs {CODES} rows or more to learn its codes from, and got "
                f"{len(rows)}; pass more at first, or index=None."
            )
        index = faiss.IndexIVFPQ(faiss.IndexFlatL2(width), width, cells, parts, 8)
        index.cp.seed = index.pq.cp.seed = 1 + int(seed) % 2**30
        index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1
        index.train(_padded(rows, width))
        centres = index.quantizer.reconstruct_n(0, cells)
        books = faiss.vector_to_array(index.pq.centroids).reshape(parts, CODES, width // parts)
        return cls(centres, books, m)

    @staticmethod
    def sample_size(n: int) -> int:
        """Return how many of n rows are worth learning from.

        >>> Quantiser.sample_size(10**6), Quantiser.sample_size(1000)
        (64000, 1000)
        """
        return int(min(n, _SAMPLE * max(CODES, round(n**0.5))))

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return len(self.centres)

    def encode(self, rows: Rows) -> Codes:
        """Return the codes (n, bytes) of rows (n, m) of length 1."""
        return np.asarray(self._empty.sa_encode(_padded(rows, self.centres.shape[1])))

    def index(self, codes: Codes) -> Any:
        """Return what searches among coded rows."""
        index = self._new()
        self._check(codes, index.sa_code_size())
        index.add_sa_codes(np.ascontiguousarray(codes))
        return index

    def kth(self, index: Any, U: Rows, k: int) -> NDArray[np.float32]:
        """Return the squared distance of each row of U (n, m) to its k-th nearest coded row."""
        queries = _padded(U, self.centres.shape[1])
        faiss = need("faiss", "faiss")
        probes = max(PROBES, -(-4 * k * self.cells // index.ntotal))
        some = faiss.SearchParametersIVF(nprobe=min(probes, self.cells))
        squares, found = index.search(queries, k, params=some)
        few = np.flatnonzero(found[:, k - 1] < 0)  # the cells that were searched hold too few
        if len(few):
            every = faiss.SearchParametersIVF(nprobe=self.cells)
            squares[few] = index.search(queries[few], k, params=every)[0]
        # What the codes stand for is not where the rows were: rounding may go below zero.
        return np.asarray(np.maximum(squares[:, k - 1], 0))

    def state(self) -> State:
        """Return the arrays to be stored."""
        return {
            "centres": self.centres,
            "codebooks": self.codebooks,
            "n_features": self.n_features,
        }

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild one from its stored arrays."""
        return cls(**state)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantiser):
            return NotImplemented
        return np.array_equal(self.centres, other.centres) and np.array_equal(
            self.codebooks, other.codebooks
        )

    def __hash__(self) -> int:
        return hash(self.centres.tobytes())

    @cached_property
    def _empty(self) -> Any:
        return self._new()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_empty"}

    def _new(self) -> Any:
        """Return an index without rows."""
        faiss = need("faiss", "faiss")
        width = self.centres.shape[1]
        coarse = faiss.IndexFlatL2(width)
        coarse.add(self.centres)
        index = faiss.IndexIVFPQ(coarse, width, self.cells, len(self.codebooks), 8)
        faiss.copy_array_to_vector(self.codebooks.ravel(), index.pq.centroids)
        index.is_trained = True
        index.precompute_table()
        return index

    def _check(self, codes: Codes, size: int) -> None:
        """Refuse codes that name cells which do not exist: faiss would not notice."""
        if codes.dtype != np.uint8 or codes.ndim != 2 or codes.shape[1] != size:
            raise FormatError("the codes of the rows are not of this quantiser; fit again.")
        numbers = np.zeros(len(codes), dtype=np.int64)
        for place in range(size - len(self.codebooks)):
            numbers += codes[:, place].astype(np.int64) << (8 * place)
        if len(codes) and numbers.max() >= self.cells:
            raise FormatError("the codes of the rows name cells that are not there; fit again.")


def _checked(values: Any, ndim: int) -> NDArray[np.float32]:
    array = np.ascontiguousarray(values, dtype=np.float32)
    if array.ndim != ndim or not array.size or not np.isfinite(array).all():
        raise FormatError("a quantiser is empty or holds values that are not finite; fit again.")
    return array


def _padded(rows: Rows, width: int) -> NDArray[np.float32]:
    """Return rows in float32 with zeros after them, up to a width."""
    padded = np.zeros((len(rows), width), dtype=np.float32)
    padded[:, : rows.shape[1]] = rows
    return padded
