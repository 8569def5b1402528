"""KNN: minus the distance to the k-th nearest training feature, on the unit sphere.

    score(z) = -|z/|z| - b_(k)|,   b_(1), b_(2), ... = training features of length 1, by distance

Sun, Ming, Zhu, Li: Out-of-Distribution Detection with Deep Nearest Neighbors, ICML 2022. Higher =
more typical, as printed; between -2 and 0. k = 50 is the paper's choice for CIFAR-10 (200 for
CIFAR-100, 1000 for ImageNet). The search is exact (see `_search.py`), the distance is taken from
the difference of the two vectors, so that equal ones are at distance 0. Fit: keeps the features.
Score: at most one product with all of them, block by block.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import (
    AnyArray,
    Array,
    Rows,
    as_floating,
    is_at_hand,
    like,
    namespace,
    to_numpy,
)
from typica.checks import choice, count
from typica.detectors._bases.rows import SUBSAMPLE, RowsDetector, check_k, in_blocks
from typica.detectors._search import Search
from typica.detectors._search_on_device import kth_by_product
from typica.errors import InputWarning, warn
from typica.extras import need
from typica.linalg import paired_distances, unit_rows, units
from typica.store import storable
from typica.tags import Tags

LEAST_ROWS = 39  # of each cell that faiss needs to find the cells
# The distance of opposite directions, which a zero row is given: it has no direction.
FARTHEST = 2.0


@storable("knn")
class KNN(RowsDetector):
    """Distance to the k-th nearest training feature.

    Zero features have no direction: their distance from everything counts as 2, the largest there
    is. The rows keep the precision of the training features, and so does the comparison: if either
    side is float32, both are rounded to it.

    Parameters
    ----------
    k
        Which of the nearest training rows the distance is to.
    subsample
        Keep only a random sample, a share (float) or a number (int) of rows.
    seed
        Chooses the sample.
    index
        "faiss" searches approximately, in the nearest of about sqrt(N) cells, for millions of rows.

    >>> detector = KNN(k=2).fit(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]] * 10))
    >>> detector.score_samples(np.array([[5.0, 0.0], [-1.0, 0.0]])).round(4)
    array([-0.    , -1.4142])
    """

    tags = Tags(
        keeps_rows=True,
        mergeable=True,
        fit_cost="O(N m)",
        score_cost="O(N m)",
        memory="O(N m)",
        reference="Sun et al. 2022, ICML",
    )
    params = {
        "k": count(),
        "subsample": SUBSAMPLE,
        "seed": count(0),
        "index": choice(None, "faiss", advice='pass None (exact) or "faiss"'),
    }
    _directions: AnyArray
    _search: Search | Cells

    def __init__(
        self,
        k: int = 50,
        subsample: float | int | None = None,
        seed: int = 0,
        index: str | None = None,
    ) -> None:
        self.k = k
        self.subsample = subsample
        self.seed = seed
        self.index = index

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.index is not None:
            need("faiss", "faiss")

    def _kept(self, Z: Rows) -> Rows:
        dtype = as_floating(Z[:1]).dtype
        return in_blocks(lambda rows: unit_rows(rows.astype(np.float64)), Z, dtype)

    def _derive(self) -> None:
        super()._derive()
        rows = self.rows_
        check_k(self.k, len(rows), self.subsample)
        directed = np.vecdot(rows, rows) > 0  # these are of length 1, the others zero
        self._directions = rows if directed.all() else rows[directed]
        if len(self._directions) < self.k:
            return  # the k-th nearest is a zero row, for every query
        if self.index is None:
            self._search = Search(self._directions)
        else:
            self._search = Cells(self._directions, int(self.k))

    def _warn_of_labels(self, labels: Any) -> None:
        counts = Counter(to_numpy(labels).ravel().tolist())
        if not counts:  # labels are not used, and so not checked
            return
        kept = len(self.rows_) / counts.total()
        name, rows = min(counts.items(), key=lambda item: item[1])
        rows = int(kept * rows)
        if self.k > rows:
            warn(
                f"KNN.fit: k={self.k} exceeds the {rows} rows that are kept of class {name}: the "
                f"k-th neighbour of its inputs is of another class; pass k<={max(rows, 1)}, or "
                "more of its rows.",
                InputWarning,
            )

    def _score(self, Z: Array) -> Array:
        xp = namespace(Z)
        if len(self._directions) < self.k:
            return xp.full_like(Z[:, 0], -FARTHEST)
        near = is_at_hand(Z)
        narrow = xp.float32 if self._directions.dtype == np.float32 else Z.dtype
        # In float64, so that a row has the same direction, to the last bit, kept and as a query.
        U, zero = units(xp.astype(Z, xp.float64) if near else Z)
        U = xp.astype(U, narrow)
        if near:
            index = self._search.kth(to_numpy(U).astype(self._directions.dtype, copy=False), self.k)
            neighbours = like(self._directions[index], U)
        else:
            rows = self._like("_directions", U)
            neighbours = xp.take(rows, kth_by_product(U, rows, self.k), axis=0)
        scores = -xp.astype(paired_distances(U, neighbours), Z.dtype)
        return xp.where(zero, xp.full_like(scores, -FARTHEST), scores)

    def _note(self, z: AnyArray) -> str:
        if z.any():
            return ""
        return "the feature vector is zero and has no direction, so it scores -2"


class Cells:
    """Approximate search by faiss, in the nearest few of about sqrt(N) cells of rows."""

    def __init__(self, rows: Rows, k: int) -> None:
        faiss = need("faiss", "faiss")
        n, m = rows.shape
        cells = max(1, min(round(n**0.5), n // LEAST_ROWS))
        self._rows = rows
        self._index = faiss.IndexIVFFlat(faiss.IndexFlatL2(m), m, cells)
        # Cells that hold 4k rows or more, on average.
        self._index.nprobe = max(8, -(-4 * k * cells // n))
        single = rows.astype(np.float32, copy=False)
        self._index.train(single)
        self._index.add(single)

    def kth(self, Q: AnyArray, k: int) -> NDArray[np.int64]:
        """Return the k-th nearest of the rows searched, for each of the queries Q (n, m)."""
        _, found = self._index.search(np.ascontiguousarray(Q, dtype=np.float32), k)
        index: NDArray[np.int64] = found[:, k - 1]
        few = index < 0  # the cells that were searched hold fewer than k rows
        if few.any():
            index[few] = self._exact.kth(Q[few], k)
        return index

    @cached_property
    def _exact(self) -> Search:
        return Search(self._rows)
